//! What one event of a stream says: its part of the answer's text, whether the answer is over with it, whose protocol
//! it speaks. Read in one pass that keeps nothing else, because it is done for every event.
//!
//! Only visible answer text is text. Reasoning, refusals, arguments of tools, audio and transcripts are content, but of
//! another kind, and not to be mixed into it. Of several choices the first one's text counts, for the same reason.

use std::borrow::Cow;

use crate::places::{self, Places};

/// How a provider speaks in its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// When it is OpenAI's chat completions, or one of their many likenesses.
    Chat,
    /// When it is OpenAI's Responses.
    Responses,
    /// When it is Anthropic's Messages.
    Messages,
    /// When it is Gemini's generateContent.
    Generate,
    /// When it is Gemini's Interactions.
    Interactions,
    /// When it is Cohere's, version 1 or 2.
    Cohere,
    /// When it is Ollama's own.
    Ollama,
}

/// How far an answer is, told by its events.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The choices seen, and whether each has a finish reason.
    choices: Vec<(u64, bool)>,
    /// When the event came after which nothing follows.
    over: bool,
    /// When the answer is complete, though more may follow.
    complete: bool,
}

/// What ends a stream of chat completions, and some others.
pub const DONE: &str = "[DONE]";

impl Progress {
    /// Whether the event came after which nothing follows.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether an end now is in good order; `choices` is how many were asked for.
    pub fn may_end(&self, protocol: Option<Protocol>, choices: usize) -> bool {
        let finished = self.choices.iter().filter(|(_, finished)| *finished).count();
        let all = finished > 0 && finished == self.choices.len();
        self.over
            || self.complete
            || match protocol {
                None => true,
                // A server may write one choice after the other, so those that have not begun are waited for.
                Some(Protocol::Chat | Protocol::Generate) => all && finished >= choices,
                Some(_) => false,
            }
    }

    fn note(&mut self, choice: &Choice<'_>) {
        match self.choices.iter_mut().find(|(index, _)| *index == choice.index) {
            Some((_, finished)) => *finished |= choice.finished,
            None => self.choices.push((choice.index, choice.finished)),
        }
    }
}

/// What an event says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said<'a> {
    /// Whose protocol it is; `None` when the event alone does not tell.
    pub protocol: Option<Protocol>,
    /// Its part of the visible text.
    pub text: Cow<'a, str>,
    /// The provider's id for the answer.
    pub id: Option<Cow<'a, str>>,
}

/// Reads one event; `name` is the one it was sent with, which may be empty.
pub fn read<'a>(name: &str, data: &'a str, progress: &mut Progress) -> Said<'a> {
    if data.trim() == DONE {
        progress.over = true;
        return Said::default();
    }
    if !data.trim_start().starts_with('{') {
        return Said::default();
    }
    let mut look = Look::new(progress);
    places::read(data.as_bytes(), Place::Event, &mut look);
    look.said(name)
}

/// Where something stands in an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Event,
    /// `type`, or Google's and Cohere's `event_type`.
    Word,
    /// What only Gemini's chunks have.
    Gemini,
    Id,
    /// An object that holds the id, and nothing else we ask for.
    Holder,
    Done,
    Choices,
    Choice,
    Index,
    Finish,
    /// The `delta` of a choice, or the `message` of an answer that is no stream.
    ChoiceDelta,
    /// A text, or a list of chunks.
    Content,
    Chunk,
    ChunkKind,
    ChunkText,
    Candidate,
    /// Gemini's `content` and its `parts`.
    Parts,
    Part,
    PartText,
    PartThought,
    /// `delta`: a text of Responses, an object of the others.
    Delta,
    DeltaKind,
    DeltaText,
    /// Cohere's `delta.message.content`.
    DeltaMessage,
    Block,
    /// `message`: Ollama's, with the text, or Anthropic's, with the id.
    Message,
    MessageText,
    /// `text`: Cohere's, version 1.
    Text,
    /// `response`: Ollama's text, or an object with the id.
    Response,
}

/// One choice, as far as it was read.
#[derive(Default)]
struct Choice<'a> {
    index: u64,
    finished: bool,
    text: Cow<'a, str>,
}

struct Look<'a, 'p> {
    progress: &'p mut Progress,
    word: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    done: Option<bool>,
    is_chat: bool,
    is_gemini: bool,
    choice: Choice<'a>,
    /// The chunk or part of it that is being read: its text, and whether that is an answer's.
    piece: Cow<'a, str>,
    piece_counts: bool,
    /// The first choice's text.
    answer: Cow<'a, str>,
    /// `delta` as a text; and, of an object, its type and its text.
    delta: Cow<'a, str>,
    delta_kind: Option<Cow<'a, str>>,
    delta_text: Cow<'a, str>,
    /// What stands in `message.content`, `response` or `text`.
    plain: Cow<'a, str>,
}

impl<'a, 'p> Look<'a, 'p> {
    fn new(progress: &'p mut Progress) -> Self {
        Self {
            progress,
            word: None,
            id: None,
            done: None,
            is_chat: false,
            is_gemini: false,
            choice: Choice::default(),
            piece: Cow::default(),
            piece_counts: true,
            answer: Cow::default(),
            delta: Cow::default(),
            delta_kind: None,
            delta_text: Cow::default(),
            plain: Cow::default(),
        }
    }

    fn said(self, name: &str) -> Said<'a> {
        let word = self.word.as_deref().unwrap_or(name);
        let protocol = if self.is_chat {
            Some(Protocol::Chat)
        } else if self.is_gemini {
            Some(Protocol::Generate)
        } else {
            named(word).or_else(|| self.done.map(|_| Protocol::Ollama))
        };
        let kind = self.delta_kind.as_deref();
        let text = match (protocol, word) {
            (Some(Protocol::Chat | Protocol::Generate), _) => self.answer,
            (Some(Protocol::Responses), "response.output_text.delta") => self.delta,
            (Some(Protocol::Messages), "content_block_delta") if kind == Some("text_delta") => {
                self.delta_text
            }
            (Some(Protocol::Messages), "content_block_start") if kind == Some("text") => self.delta_text,
            (Some(Protocol::Interactions), _) if matches!(kind, None | Some("text")) => self.delta_text,
            (Some(Protocol::Cohere), "content-start" | "content-delta") => self.delta_text,
            (Some(Protocol::Cohere), "text-generation") | (Some(Protocol::Ollama), _) => self.plain,
            _ => Cow::default(),
        };
        match word {
            "message_stop" | "response.completed" | "response.incomplete" | "message-end" | "stream-end" => {
                self.progress.over = true;
            }
            // `[DONE]` may follow.
            "interaction.completed" | "interaction.complete" => self.progress.complete = true,
            _ => self.progress.over |= self.done == Some(true) && protocol == Some(Protocol::Ollama),
        }
        Said { protocol, text, id: self.id }
    }
}

/// The protocol an event's name belongs to.
fn named(word: &str) -> Option<Protocol> {
    match word {
        "message_start"
        | "message_delta"
        | "message_stop"
        | "content_block_start"
        | "content_block_delta"
        | "content_block_stop"
        | "ping" => Some(Protocol::Messages),
        "message-start" | "message-end" | "content-start" | "content-delta" | "content-end"
        | "tool-plan-delta" | "tool-call-start" | "tool-call-delta" | "tool-call-end" | "citation-start"
        | "citation-end" | "stream-start" | "stream-end" | "text-generation" => Some(Protocol::Cohere),
        _ => match word.split_once('.')?.0 {
            "response" => Some(Protocol::Responses),
            "interaction" | "step" | "content" => Some(Protocol::Interactions),
            _ => None,
        },
    }
}

/// Adds to a text that is borrowed as long as it is one piece.
fn push<'a>(text: &mut Cow<'a, str>, more: Cow<'a, str>) {
    if text.is_empty() {
        *text = more;
    } else if !more.is_empty() {
        text.to_mut().push_str(&more);
    }
}

impl<'a> Places<'a> for Look<'a, '_> {
    type Place = Place;

    fn key(&self, place: Place, key: &str) -> Option<Place> {
        Some(match (place, key) {
            (Place::Event, "type" | "event_type") => Place::Word,
            (Place::Event, "choices") => Place::Choices,
            (Place::Event, "candidates") => Place::Candidate,
            (Place::Event, "usageMetadata" | "promptFeedback") => Place::Gemini,
            (Place::Event, "delta") => Place::Delta,
            (Place::Event, "content_block") => Place::Block,
            (Place::Event, "message") => Place::Message,
            (Place::Event, "response") => Place::Response,
            (Place::Event, "interaction") => Place::Holder,
            (Place::Event, "done") => Place::Done,
            (Place::Event, "text") => Place::Text,
            (
                Place::Event | Place::Message | Place::Response | Place::Holder,
                "id" | "responseId" | "generation_id",
            ) => Place::Id,
            (Place::Choice | Place::Candidate, "index") => Place::Index,
            (Place::Choice, "finish_reason") | (Place::Candidate, "finishReason") => Place::Finish,
            (Place::Choice, "delta" | "message") => Place::ChoiceDelta,
            (Place::Choice, "text") | (Place::ChoiceDelta, "content") => Place::Content,
            (Place::Chunk, "type") => Place::ChunkKind,
            (Place::Chunk, "text") => Place::ChunkText,
            (Place::Candidate, "content") | (Place::Parts, "parts") => Place::Parts,
            (Place::Part, "text") => Place::PartText,
            (Place::Part, "thought") => Place::PartThought,
            (Place::Delta | Place::Block, "type") => Place::DeltaKind,
            (Place::Delta | Place::Block | Place::DeltaMessage, "text") => Place::DeltaText,
            (Place::Delta, "message") | (Place::DeltaMessage, "content") => Place::DeltaMessage,
            (Place::Message, "content") => Place::MessageText,
            _ => return None,
        })
    }

    fn item(&self, place: Place) -> Option<Place> {
        match place {
            Place::Choices => Some(Place::Choice),
            Place::Candidate => Some(Place::Candidate),
            Place::Parts => Some(Place::Part),
            Place::Content => Some(Place::Chunk),
            _ => None,
        }
    }

    fn text(&mut self, place: Place, text: Cow<'a, str>) {
        match place {
            Place::Word => self.word = self.word.take().or(Some(text)),
            Place::Id => self.id = self.id.take().or(Some(text)),
            Place::Finish => {
                self.choice.finished = !text.is_empty() && text != "FINISH_REASON_UNSPECIFIED";
            }
            Place::Content => push(&mut self.choice.text, text),
            Place::ChunkKind => self.piece_counts = text == "text",
            Place::ChunkText | Place::PartText => self.piece = text,
            Place::Delta => self.delta = text,
            Place::DeltaKind => self.delta_kind = Some(text),
            Place::DeltaText => self.delta_text = text,
            Place::MessageText | Place::Text | Place::Response => self.plain = text,
            _ => {}
        }
    }

    fn number(&mut self, place: Place, number: u64) {
        if place == Place::Index {
            self.choice.index = number;
        }
    }

    fn flag(&mut self, place: Place, flag: bool) {
        match place {
            Place::Done => self.done = Some(flag),
            Place::PartThought => self.piece_counts = !flag,
            _ => {}
        }
    }

    fn open(&mut self, place: Place) {
        match place {
            Place::Choice | Place::Candidate => {
                self.is_chat |= place == Place::Choice;
                self.is_gemini |= place == Place::Candidate;
                self.choice = Choice::default();
            }
            Place::Chunk | Place::Part => (self.piece, self.piece_counts) = (Cow::default(), true),
            Place::Gemini => self.is_gemini = true,
            _ => {}
        }
    }

    fn close(&mut self, place: Place) {
        match place {
            Place::Choice | Place::Candidate => {
                let choice = std::mem::take(&mut self.choice);
                self.progress.note(&choice);
                if choice.index == 0 {
                    push(&mut self.answer, choice.text);
                }
            }
            Place::Chunk | Place::Part if self.piece_counts => {
                let piece = std::mem::take(&mut self.piece);
                push(&mut self.choice.text, piece);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, data: &str) -> (Option<Protocol>, String) {
        let mut progress = Progress::default();
        let said = read(name, data, &mut progress);
        (said.protocol, said.text.into_owned())
    }

    fn ends(events: &[&str], choices: usize) -> (bool, bool) {
        let mut progress = Progress::default();
        let mut protocol = None;
        for event in events {
            protocol = protocol.or(read("", event, &mut progress).protocol);
        }
        (progress.may_end(protocol, choices), progress.is_over())
    }

    #[test]
    fn the_text_of_an_event_is_the_visible_part_of_the_answer() {
        use Protocol::*;
        for (protocol, data) in [
            (
                Chat,
                r#"{"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi\n"}, "finish_reason": null}]}"#,
            ),
            (Chat, r#"{"choices": [{"index": 0, "text": "Hi\n"}]}"#),
            (
                Chat,
                r#"{"choices": [{"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "Hi"}, {"text": "\n", "type": "text"}]}}]}"#,
            ),
            (
                Chat,
                r#"{"choices": [{"delta": {"content": "No"}, "index": 1}, {"index": 0, "delta": {"content": "Hi\n"}}]}"#,
            ),
            (
                Chat,
                r#"{"choices": [{"message": {"content": "Hi\n", "refusal": null}, "finish_reason": "stop"}]}"#,
            ),
            (Responses, r#"{"type": "response.output_text.delta", "delta": "Hi\n"}"#),
            (
                Messages,
                r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi\n"}}"#,
            ),
            (
                Messages,
                r#"{"type": "content_block_start", "content_block": {"text": "Hi\n", "type": "text"}}"#,
            ),
            (
                Generate,
                r#"{"candidates": [{"content": {"parts": [{"text": "Hm", "thought": true}, {"text": "Hi"}, {"text": "\n"}], "role": "model"}}], "modelVersion": "m"}"#,
            ),
            (Interactions, r#"{"event_type": "step.delta", "delta": {"type": "text", "text": "Hi\n"}}"#),
            (
                Cohere,
                r#"{"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi\n"}}}}"#,
            ),
            (Cohere, r#"{"event_type": "text-generation", "text": "Hi\n", "is_finished": false}"#),
            (Ollama, r#"{"model": "m", "message": {"role": "assistant", "content": "Hi\n"}, "done": false}"#),
            (Ollama, r#"{"model": "m", "response": "Hi\n", "done": false}"#),
        ] {
            assert_eq!(said("", data), (Some(protocol), "Hi\n".to_owned()), "{data}");
        }
    }

    #[test]
    fn content_of_another_kind_is_no_text() {
        for data in [
            r#"{"choices": [{"delta": {"reasoning_content": "Hm", "content": null}}]}"#,
            r#"{"choices": [{"delta": {"refusal": "No", "tool_calls": [{"function": {"arguments": "{"}}]}}]}"#,
            r#"{"choices": [{"index": 1, "delta": {"content": "the other one"}}]}"#,
            r#"{"type": "response.reasoning_text.delta", "delta": "Hm"}"#,
            r#"{"type": "response.function_call_arguments.delta", "delta": "{"}"#,
            r#"{"type": "response.audio.delta", "delta": "AAAA"}"#,
            r#"{"type": "response.output_text.done", "text": "Hi"}"#,
            r#"{"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm"}}"#,
            r#"{"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}}"#,
            r#"{"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"text": "x"}}}]}}]}"#,
            r#"{"event_type": "step.delta", "delta": {"type": "thought", "text": "Hm"}}"#,
            r#"{"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "Hm"}}}"#,
            r#"{"event_type": "stream-end", "response": {"text": "Hi"}}"#,
            "[DONE]",
            "plain",
            r#"{"choices": 5, "delta": [1], "type": {}}"#,
        ] {
            assert_eq!(said("", data).1, "", "{data}");
        }
    }

    #[test]
    fn an_event_without_a_type_is_known_by_its_name() {
        assert_eq!(said("message-start", "{}").0, Some(Protocol::Cohere));
        assert_eq!(said("content_block_stop", r#"{"index": 0}"#).0, Some(Protocol::Messages));
        assert_eq!(said("", r#"{"token": {"text": "Hi"}}"#).0, None);
    }

    #[test]
    fn the_end_of_a_stream_is_known_by_its_protocol() {
        let rows: [(&[&str], (bool, bool)); 17] = [
            (&[r#"{"choices": [{"delta": {"content": "Hi"}}]}"#], (false, false)),
            (&[r#"{"choices": [{"delta": {"content": "Hi"}}]}"#, "[DONE]"], (true, true)),
            (&[r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#], (true, false)),
            (
                &[
                    r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}"#,
                    r#"{"choices": [{"index": 1, "delta": {"content": "Hi"}}]}"#,
                ],
                (false, false),
            ),
            (&[r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}"#], (false, false)),
            (&[r#"{"type": "message_stop"}"#], (true, true)),
            (&[r#"{"type": "response.output_text.done", "text": "Hi"}"#], (false, false)),
            (&[r#"{"type": "response.completed", "response": {}}"#], (true, true)),
            (&[r#"{"type": "response.incomplete", "response": {}}"#], (true, true)),
            (&[r#"{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}"#], (false, false)),
            (
                &[
                    r#"{"candidates": [{"finishReason": "STOP"}]}"#,
                    r#"{"usageMetadata": {"promptTokenCount": 1}}"#,
                ],
                (true, false),
            ),
            (&[r#"{"event_type": "interaction.completed", "interaction": {"id": "i"}}"#], (true, false)),
            (&[r#"{"event_type": "step.stop"}"#], (false, false)),
            (&[r#"{"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}"#], (true, true)),
            (&[r#"{"model": "m", "response": "Hi", "done": false}"#], (false, false)),
            (&[r#"{"model": "m", "response": "", "done": true}"#], (true, true)),
            (&[r#"{"token": {"text": "Hi"}}"#], (true, false)),
        ];
        for (events, expected) in rows {
            assert_eq!(ends(events, 1), expected, "{events:?}");
        }
    }

    #[test]
    fn choices_that_were_asked_for_and_have_not_begun_are_waited_for() {
        let one = r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}"#;
        let other = r#"{"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]}"#;
        assert_eq!(ends(&[one], 2), (false, false));
        assert_eq!(ends(&[one, other], 2), (true, false));
        assert_eq!(ends(&[one, "[DONE]"], 2), (true, true));
    }

    #[test]
    fn the_provider_s_id_is_found_where_each_puts_it() {
        for data in [
            r#"{"id": "x", "choices": []}"#,
            r#"{"type": "message_start", "message": {"id": "x", "content": []}}"#,
            r#"{"type": "response.created", "response": {"id": "x"}}"#,
            r#"{"candidates": [], "responseId": "x"}"#,
            r#"{"event_type": "interaction.created", "interaction": {"id": "x"}}"#,
            r#"{"event_type": "stream-start", "generation_id": "x"}"#,
        ] {
            let mut progress = Progress::default();
            assert_eq!(read("", data, &mut progress).id.as_deref(), Some("x"), "{data}");
        }
    }
}
