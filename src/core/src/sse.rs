//! Bytes to server-sent events (WHATWG HTML, 9.2) or to lines of JSON, however the bytes are split.
//!
//! Nothing here knows what an event means; `opening` does. Lenient where providers are: JSON that stands bare between
//! events (Gemini writes an error so) is an event, and so is one whose last blank line was cut off.

/// How a body is divided into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// When it is `text/event-stream`.
    Events,
    /// When every line is a JSON value.
    JsonLines,
}

impl Format {
    /// The format a content type names; `None` when it is no stream of events.
    pub fn of(content_type: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
        let kind = text.split(';').next().unwrap_or_default().trim();
        match kind {
            "text/event-stream" => Some(Self::Events),
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines"
            | "application/json-lines"
            | "application/stream+json" => Some(Self::JsonLines),
            _ => None,
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its data, lines joined by line feeds.
    pub data: String,
}

/// Reads events from bytes as they come.
#[derive(Debug)]
pub struct Events {
    format: Format,
    /// A line that is not complete.
    line: Vec<u8>,
    /// The last byte was a carriage return, so that a line feed now belongs to it.
    after_return: bool,
    /// No line was read yet, so that a byte order mark may stand before the first.
    at_start: bool,
    event: Event,
    has_data: bool,
    /// JSON that stands bare, as far as it has come.
    bare: String,
}

const BOM: &[u8] = &[0xEF, 0xBB, 0xBF];

impl Events {
    /// A reader at the start of a body.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: Event::default(),
            has_data: false,
            bare: String::new(),
        }
    }

    /// Reads on; every event that these bytes complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut found = Vec::new();
        let mut rest = bytes;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            self.line.extend_from_slice(&rest[..end]);
            let returned = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if returned {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            found.extend(self.end_line());
        }
        self.line.extend_from_slice(rest);
        found
    }

    /// Told that nothing more comes; the event that was not closed, if there is one.
    pub fn end(&mut self) -> Option<Event> {
        let last = if self.line.is_empty() { None } else { self.end_line() };
        last.or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let at_start = std::mem::replace(&mut self.at_start, false);
        let bytes = if at_start { bytes.strip_prefix(BOM).unwrap_or(&bytes) } else { &bytes[..] };
        let line = String::from_utf8_lossy(bytes);
        match self.format {
            Format::JsonLines => {
                let line = line.trim();
                (!line.is_empty()).then(|| Event { name: String::new(), data: line.to_owned() })
            }
            Format::Events => self.sse_line(&line),
        }
    }

    fn sse_line(&mut self, line: &str) -> Option<Event> {
        if !self.bare.is_empty() || (line.starts_with(['{', '[']) && !self.has_data) {
            return self.bare_line(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, ids, times to reconnect, and what nobody knows.
            _ => {}
        }
        None
    }

    /// JSON without a field name, complete with its last line.
    fn bare_line(&mut self, line: &str) -> Option<Event> {
        self.bare.push_str(line);
        self.bare.push('\n');
        let may_end = line.is_empty() || line.trim_end().ends_with(['}', ']', ',']);
        let text = self.bare.trim().trim_end_matches(',');
        let whole = may_end && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        if !whole && !line.is_empty() {
            return None;
        }
        let data = text.to_owned();
        self.bare.clear();
        (!data.is_empty()).then(|| Event { name: String::new(), data })
    }

    fn dispatch(&mut self) -> Option<Event> {
        if !self.bare.is_empty() {
            return self.bare_line("");
        }
        let event = std::mem::take(&mut self.event);
        std::mem::replace(&mut self.has_data, false).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Format, pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Events::new(format);
        let mut found: Vec<Event> = pieces.iter().flat_map(|piece| events.feed(piece)).collect();
        found.extend(events.end());
        found.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_split() {
        let text = "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\": \"é\"}\r\n\r\ndata:1\ndata: 2\n\nid: 7\rdata\r\rretry: 5\n\ndata: last"
            .as_bytes();
        let whole = vec![pair("a", "{\"x\": \"é\"}"), pair("", "1\n2"), pair("", ""), pair("", "last")];
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(read(Format::Events, &pieces), whole, "in pieces of {size}");
        }
    }

    #[test]
    fn a_blank_line_without_data_is_no_event_and_clears_the_name() {
        assert_eq!(read(Format::Events, &[b"event: a\n\ndata: x\n\n"]), [pair("", "x")]);
    }

    #[test]
    fn json_that_stands_bare_between_events_is_an_event() {
        let text = b"data: {\"a\": 1}\n\n{\n  \"error\": {\n    \"code\": 503\n  }\n}\n\ndata: x\n\n";
        let found = read(Format::Events, &[text]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].1.contains("503"));
        assert_eq!(read(Format::Events, &[b"{\"error\": \"x\"}"]), [pair("", "{\"error\": \"x\"}")]);
        assert_eq!(read(Format::Events, &[b"{\"error\": \"x"]), [pair("", "{\"error\": \"x")]);
    }

    #[test]
    fn lines_of_json_are_events_of_one_line() {
        let found = read(Format::JsonLines, &[b"{\"a\":1}\r", b"\n\n{\"a\"", b":2}"]);
        assert_eq!(found, [pair("", "{\"a\":1}"), pair("", "{\"a\":2}")]);
    }

    #[test]
    fn the_content_type_names_the_format() {
        assert_eq!(Format::of(b"Text/Event-Stream; charset=utf-8"), Some(Format::Events));
        assert_eq!(Format::of(b"application/x-ndjson"), Some(Format::JsonLines));
        assert_eq!(Format::of(b"application/json"), None);
    }
}
