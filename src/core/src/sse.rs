//! Bytes to server-sent events (WHATWG HTML, 9.2) or to values of JSON, however the bytes are split.
//!
//! Nothing here knows what an event means; `opening` and `reading` do. Lenient where providers are: JSON that stands
//! bare between events (Gemini writes an error so) is an event, and so is one whose last blank line was cut off.

/// How a body is divided into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// When it is `text/event-stream`.
    Events,
    /// When every line is a JSON value.
    JsonLines,
    /// When it is one JSON array whose items come one by one, or JSON values one after the other.
    JsonValues,
}

impl Format {
    /// The format a content type names; `None` when it is no stream of events.
    pub fn of(content_type: &[u8]) -> Option<Self> {
        match kind(content_type).as_str() {
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

    /// The same for the answer to a request for a stream: JSON is its values, and where the type says nothing the
    /// first bytes do.
    pub fn of_stream(content_type: &[u8], start: &[u8]) -> Option<Self> {
        let start = start.strip_prefix(BOM).unwrap_or(start).trim_ascii_start();
        let is_json = || {
            let kind = kind(content_type);
            kind == "application/json"
                || kind.ends_with("+json")
                || matches!(start.first(), Some(b'{' | b'['))
        };
        let is_field = || {
            [&b":"[..], b"data:", b"event:", b"id:", b"retry:"].iter().any(|field| start.starts_with(field))
        };
        Self::of(content_type)
            .or_else(|| is_field().then_some(Self::Events))
            .or_else(|| is_json().then_some(Self::JsonValues))
    }
}

fn kind(content_type: &[u8]) -> String {
    let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
    text.split(';').next().unwrap_or_default().trim().to_owned()
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its data, lines joined by line feeds.
    pub data: String,
    /// The id it was sent with; those of earlier events do not stay.
    pub id: Option<String>,
}

impl Event {
    fn of_json(data: &str) -> Self {
        Self { data: data.to_owned(), ..Self::default() }
    }
}

/// Reads events from bytes as they come.
#[derive(Debug)]
pub struct Events {
    format: Format,
    /// A line or a value that is not complete.
    line: Vec<u8>,
    /// The last byte was a carriage return, so that a line feed now belongs to it.
    after_return: bool,
    /// Nothing was read yet, so that a byte order mark may stand before the first line.
    at_start: bool,
    event: Event,
    has_data: bool,
    /// JSON that stands bare, as far as it has come.
    bare: String,
    nesting: Nesting,
}

/// Where in a JSON value the reading stands.
#[derive(Debug, Default)]
struct Nesting {
    /// Objects and arrays that are open, without the one that holds the values.
    depth: usize,
    in_text: bool,
    escaped: bool,
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
            nesting: Nesting::default(),
        }
    }

    /// Reads on; every event that these bytes complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut found = Vec::new();
        match self.format {
            Format::Events | Format::JsonLines => self.lines(bytes, &mut found),
            Format::JsonValues => self.values(bytes, &mut found),
        }
        found
    }

    /// Told that nothing more comes; the event that was not closed, if there is one.
    pub fn end(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let last = if line.is_empty() { None } else { self.end_line(&line) };
        last.or_else(|| self.dispatch())
    }

    /// Bytes kept of an event that is not complete.
    pub fn pending(&self) -> usize {
        self.line.len() + self.event.data.len() + self.bare.len()
    }

    fn lines(&mut self, bytes: &[u8], found: &mut Vec<Event>) {
        let mut rest = bytes;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            if self.line.is_empty() {
                found.extend(self.end_line(&rest[..end]));
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&rest[..end]);
                found.extend(self.end_line(&line));
                line.clear();
                self.line = line;
            }
            let returned = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if returned {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.line.extend_from_slice(rest);
    }

    fn end_line(&mut self, bytes: &[u8]) -> Option<Event> {
        let at_start = std::mem::replace(&mut self.at_start, false);
        let bytes = if at_start { bytes.strip_prefix(BOM).unwrap_or(bytes) } else { bytes };
        let line = String::from_utf8_lossy(bytes);
        match self.format {
            Format::JsonLines | Format::JsonValues => {
                let line = line.trim();
                (!line.is_empty()).then(|| Event::of_json(line))
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
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            // Comments, times to reconnect, and what nobody knows.
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
        let event = (!text.is_empty()).then(|| Event::of_json(text));
        self.bare.clear();
        event
    }

    fn dispatch(&mut self) -> Option<Event> {
        if !self.bare.is_empty() {
            return self.bare_line("");
        }
        let event = std::mem::take(&mut self.event);
        std::mem::replace(&mut self.has_data, false).then_some(event)
    }

    fn values(&mut self, bytes: &[u8], found: &mut Vec<Event>) {
        // `from` is where the value begins of which the end is looked for.
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            let Nesting { depth, in_text, escaped } = &mut self.nesting;
            if *in_text {
                if std::mem::take(escaped) {
                    at += 1;
                    continue;
                }
                let Some(next) = memchr::memchr2(b'"', b'\\', &bytes[at..]) else { break };
                at += next + 1;
                *escaped = bytes[at - 1] == b'\\';
                *in_text = *escaped;
                continue;
            }
            let byte = bytes[at];
            let before = at;
            at += 1;
            match byte {
                b'"' => *in_text = true,
                b'[' if std::mem::replace(&mut self.at_start, false) => from = at,
                b'{' | b'[' => *depth += 1,
                b'}' | b']' if *depth > 1 => *depth -= 1,
                b'}' | b']' if *depth == 1 => {
                    *depth = 0;
                    found.extend(self.end_value(&bytes[from..at]));
                    from = at;
                }
                // Around the values: what stands before it is a number, a text or nothing.
                b']' | b',' | b'\n' | b'\r' | b' ' | b'\t' if *depth == 0 => {
                    found.extend(self.end_value(&bytes[from..before]));
                    from = at;
                }
                _ => {}
            }
            // A byte order mark and white space may stand before the array.
            self.at_start &= byte.is_ascii_whitespace() || BOM.contains(&byte);
        }
        self.line.extend_from_slice(&bytes[from..]);
    }

    fn end_value(&mut self, bytes: &[u8]) -> Option<Event> {
        let mut value = std::mem::take(&mut self.line);
        value.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(value.strip_prefix(BOM).unwrap_or(&value));
        let text = text.trim();
        (!text.is_empty()).then(|| Event::of_json(text))
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
    fn an_id_belongs_to_the_event_it_was_sent_with() {
        let mut events = Events::new(Format::Events);
        let found = events.feed(b"id: 7\ndata: x\n\ndata: y\n\nid: a\0b\ndata: z\n\nid\ndata: w\n\n");
        let ids: Vec<Option<&str>> = found.iter().map(|event| event.id.as_deref()).collect();
        assert_eq!(ids, [Some("7"), None, None, Some("")]);
    }

    #[test]
    fn the_items_of_an_array_are_events_as_soon_as_they_are_whole() {
        let text = "\u{feff} [{\"a\": \"é}],[\\\"\"},\r\n{\"b\": [1, {}]}\n,\n\"x,y\" , 12\n]\n";
        let whole = [r#"{"a": "é}],[\""}"#, r#"{"b": [1, {}]}"#, r#""x,y""#, "12"].map(|data| pair("", data));
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(read(Format::JsonValues, &pieces), whole, "in pieces of {size}");
        }
        let mut events = Events::new(Format::JsonValues);
        assert_eq!(events.feed(b"[{\"a\": 1}").len(), 1);
        assert_eq!(events.feed(b",\r\n{\"a\"").len(), 0);
        assert_eq!(events.feed(b": 2}").len(), 1);
    }

    #[test]
    fn values_one_after_the_other_are_events_too_and_what_was_cut_is_the_last() {
        let found = read(Format::JsonValues, &[b"{\"a\": 1}{\"a\": 2}\n[3]\n{\"a\""]);
        assert_eq!(found, ["{\"a\": 1}", "{\"a\": 2}", "[3]", "{\"a\""].map(|data| pair("", data)));
        assert_eq!(read(Format::JsonValues, &[b"[]"]), []);
    }

    #[test]
    fn an_answer_to_a_request_for_a_stream_is_known_by_its_type_or_by_its_start() {
        let rows: [(&str, &str, Option<Format>); 9] = [
            ("text/event-stream", "[", Some(Format::Events)),
            ("application/json; charset=UTF-8", "", Some(Format::JsonValues)),
            ("application/json", "data: {}", Some(Format::Events)),
            ("text/plain", "data: x", Some(Format::Events)),
            ("", ": hello", Some(Format::Events)),
            ("text/plain", "\u{feff} [{", Some(Format::JsonValues)),
            ("application/x-ndjson", "{", Some(Format::JsonLines)),
            ("text/html", "<html>", None),
            ("", "", None),
        ];
        for (content_type, start, format) in rows {
            let found = Format::of_stream(content_type.as_bytes(), start.as_bytes());
            assert_eq!(found, format, "{content_type} {start}");
        }
    }

    #[test]
    fn the_content_type_names_the_format() {
        assert_eq!(Format::of(b"Text/Event-Stream; charset=utf-8"), Some(Format::Events));
        assert_eq!(Format::of(b"application/x-ndjson"), Some(Format::JsonLines));
        assert_eq!(Format::of(b"application/json"), None);
    }
}
