//! The tokens an answer says it cost, by the names each provider gives them; read from its bytes, of which nothing
//! else is kept.
//!
//! In a stream the counts come in parts: Anthropic tells the input at the start and the output at the end, others tell
//! both again and again. Later counts take the place of earlier ones.

use memchr::memmem;

use crate::places::{self, Places};

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the request, as the provider counts them.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Both, and what a provider counts in neither (Gemini's thoughts).
    pub total: u64,
}

/// What has been told of an answer's usage so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Tokens of the request.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
    /// All of them, when the provider adds them up itself.
    pub total: Option<u64>,
}

impl Counts {
    /// What one JSON value tells: a body, or an event of a stream. `None` when that is nothing.
    pub fn of(json: &[u8]) -> Option<Self> {
        // Nearly every event of a stream, and every body without a usage, ends here.
        let Some(last) = memmem::rfind(json, KEY) else {
            let has_other = ["_eval_count\"", "\"meta\""].iter().any(|key| contains(json, key.as_bytes()));
            return if has_other { read(json) } else { None };
        };
        let is_only = !contains(&json[..last], KEY);
        if is_only && is_null(&json[last..]) {
            return None;
        }
        at_the_end(json, last).or_else(|| read(json))
    }

    /// Told what a later event of the same stream says.
    pub fn observe(&mut self, later: Self) {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        // A sum belongs to the counts it came with.
        self.total = later.total;
    }

    /// The usage, if the input is known.
    pub fn usage(&self) -> Option<Usage> {
        let input = self.input?;
        let output = self.output.unwrap_or(0);
        let sum = input.saturating_add(output);
        Some(Usage { input, output, total: self.total.filter(|total| *total > 0).unwrap_or(sum) })
    }
}

/// The tokens the body of a JSON answer tells of; `None` when it tells of none.
pub fn of_body(body: &[u8]) -> Option<Usage> {
    Counts::of(body)?.usage()
}

/// How the keys begin that most counts stand under.
const KEY: &[u8] = b"\"usage";

fn contains(json: &[u8], key: &[u8]) -> bool {
    memmem::find(json, key).is_some()
}

/// Whether a key's value is null, as it is in every chunk of a stream but the last.
fn is_null(from_key: &[u8]) -> bool {
    let colon = memchr::memchr(b':', from_key).map_or(&b""[..], |at| &from_key[at + 1..]);
    colon.trim_ascii_start().starts_with(b"null")
}

/// The longest rest of a body that is looked at on its own.
const REST: usize = 8 * 1024;

/// Reads a key of the outermost object that stands near the end of a long body, without reading what is before it.
///
/// With a brace put before it the rest is an object if it closes exactly one: then the key was one of the outermost.
fn at_the_end(json: &[u8], at: usize) -> Option<Counts> {
    let rest = &json[at..];
    let is_worth_it = rest.len() <= REST && at > rest.len();
    if !is_worth_it || json[at - 1] == b'\\' || json.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let object = [b"{", rest].concat();
    let mut tally = Tally::default();
    places::read(&object, Place::Outermost, &mut tally).then(|| tally.counts())?
}

fn read(json: &[u8]) -> Option<Counts> {
    let mut tally = Tally::default();
    places::read(json, Place::Outermost, &mut tally);
    tally.counts()
}

/// Where counts stand.
#[derive(Clone, Copy)]
enum Place {
    /// When it is the answer or the event itself.
    Outermost,
    /// When it holds an answer: the `response` of an event, and its like.
    Holder,
    Usage,
    UsageMetadata,
    Meta,
    /// When it is Cohere's counts within its usage.
    Tokens,
    /// When it is what Cohere bills, which may differ.
    Bill,
    /// When it is a count: which spelling, and which of the three it is.
    Count(usize, usize),
}

/// (input, output, total); the first spelling whose input is there counts.
const SPELLINGS: [[&str; 3]; 8] = [
    ["prompt_tokens", "completion_tokens", "total_tokens"], // OpenAI chat and its many likenesses
    ["input_tokens", "output_tokens", "total_tokens"],      // OpenAI Responses, Anthropic
    ["inputTokens", "outputTokens", "totalTokens"],         // Bedrock Converse
    ["promptTokenCount", "candidatesTokenCount", "totalTokenCount"], // Gemini
    ["total_input_tokens", "total_output_tokens", "total_tokens"], // Gemini Interactions
    ["input_tokens", "output_tokens", ""],                  // Cohere: tokens
    ["input_tokens", "output_tokens", ""],                  // Cohere: billed_units
    ["prompt_eval_count", "eval_count", ""],                // Ollama
];
const OF_USAGE: &[usize] = &[0, 1, 2, 4];
const OF_GEMINI: usize = 3;
const OF_COHERE: usize = 5;
const OF_COHERES_BILL: usize = 6;
const OF_OLLAMA: usize = 7;
/// `total_tokens` belongs to more than one spelling.
const SHARED_TOTAL: usize = 0;

#[derive(Default)]
struct Tally([[Option<u64>; 3]; 8]);

impl Tally {
    fn counts(&self) -> Option<Counts> {
        let told = |spelling: &&[Option<u64>; 3]| spelling[0].is_some();
        let found = self.0.iter().find(told).or_else(|| self.0.iter().find(|counts| counts[1].is_some()))?;
        let [input, output, total] = *found;
        Some(Counts { input, output, total: total.or(self.0[SHARED_TOTAL][2]) })
    }
}

fn count(spelling: usize, key: &str) -> Option<Place> {
    let which = SPELLINGS[spelling].iter().position(|name| *name == key)?;
    Some(Place::Count(spelling, which))
}

impl<'a> Places<'a> for Tally {
    type Place = Place;

    fn key(&self, place: Place, key: &str) -> Option<Place> {
        match (place, key) {
            (Place::Outermost | Place::Holder, "usage") => Some(Place::Usage),
            (Place::Outermost | Place::Holder, "usageMetadata") => Some(Place::UsageMetadata),
            (Place::Outermost | Place::Holder, "meta") => Some(Place::Meta),
            (Place::Outermost, "message" | "response" | "delta" | "interaction" | "x_groq") => {
                Some(Place::Holder)
            }
            (Place::Outermost, _) => count(OF_OLLAMA, key),
            (Place::Usage | Place::Meta, "tokens") => Some(Place::Tokens),
            (Place::Usage | Place::Meta, "billed_units") => Some(Place::Bill),
            (Place::Usage, _) => OF_USAGE.iter().find_map(|spelling| count(*spelling, key)),
            (Place::UsageMetadata, _) => count(OF_GEMINI, key),
            (Place::Tokens, _) => count(OF_COHERE, key),
            (Place::Bill, _) => count(OF_COHERES_BILL, key),
            (Place::Holder | Place::Meta | Place::Count(..), _) => None,
        }
    }

    fn item(&self, place: Place) -> Option<Place> {
        // Gemini's answers in one array.
        matches!(place, Place::Outermost).then_some(Place::Outermost)
    }

    fn number(&mut self, place: Place, number: u64) {
        if let Place::Count(spelling, which) = place {
            self.0[spelling][which] = Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str) -> Option<(u64, u64, u64)> {
        of_body(body.as_bytes()).map(|usage| (usage.input, usage.output, usage.total))
    }

    #[test]
    fn every_provider_s_spelling_is_read() {
        for body in [
            r#"{"usage": {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}}"#,
            r#"{"usage": {"input_tokens": 8, "output_tokens": 4, "total_tokens": 12}}"#,
            r#"{"usage": {"input_tokens": 8, "output_tokens": 4}}"#,
            r#"{"usage": {"inputTokens": 8, "outputTokens": 4, "totalTokens": 12}}"#,
            r#"{"usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 4, "totalTokenCount": 12}}"#,
            r#"{"usage": {"total_input_tokens": 8, "total_output_tokens": 4, "total_tokens": 12}}"#,
            r#"{"usage": {"billed_units": {"input_tokens": 7, "output_tokens": 4}, "tokens": {"input_tokens": 8, "output_tokens": 4}}}"#,
            r#"{"meta": {"billed_units": {"input_tokens": 8, "output_tokens": 4}}}"#,
            r#"{"model": "m", "done": true, "prompt_eval_count": 8, "eval_count": 4}"#,
            r#"{"type": "response.completed", "response": {"usage": {"input_tokens": 8, "output_tokens": 4}}}"#,
            r#"{"type": "message-end", "delta": {"usage": {"tokens": {"input_tokens": 8, "output_tokens": 4}}}}"#,
            r#"{"choices": [], "x_groq": {"id": "r", "usage": {"prompt_tokens": 8, "completion_tokens": 4}}}"#,
            r#"{"x_groq": {"usage": {"prompt_tokens": 8, "completion_tokens": 4}}, "usage": null}"#,
            r#"{"event_type": "interaction.completed", "interaction": {"usage": {"total_input_tokens": 8, "total_output_tokens": 4}}}"#,
        ] {
            assert_eq!(told(body), Some((8, 4, 12)), "{body}");
        }
    }

    #[test]
    fn what_is_no_usage_is_none() {
        for body in [
            "",
            "{",
            "[DONE]",
            r#"{"usage": null}"#,
            r#"{"usage": {"prompt_tokens": "8"}}"#,
            r#"{"usage": {"prompt_tokens": -8}}"#,
            r#"{"choices": [{"message": {"content": "{\"usage\": {\"prompt_tokens\": 8}}"}}]}"#,
            r#"{"data": {"usage": {"prompt_tokens": 8}}}"#,
        ] {
            assert_eq!(told(body), None, "{body}");
        }
    }

    #[test]
    fn a_sum_of_the_provider_s_own_is_kept_and_one_of_none_is_made() {
        let thoughts =
            r#"{"usageMetadata": {"promptTokenCount": 8, "thoughtsTokenCount": 90, "totalTokenCount": 98}}"#;
        assert_eq!(told(thoughts), Some((8, 0, 98)));
        assert_eq!(told(r#"{"usage": {"prompt_tokens": 8, "total_tokens": 0}}"#), Some((8, 0, 8)));
    }

    #[test]
    fn the_end_of_a_long_body_tells_the_same_as_the_whole() {
        let long = "0.5,".repeat(5_000);
        let usage = r#""usage": {"prompt_tokens": 8, "total_tokens": 8}"#;
        let rows = [
            (format!(r#"{{"data": [{long} 1], {usage}}}"#), Some((8, 0, 8))),
            (format!(r#"{{"data": [{long} 1], {usage}, "model": "m"}}  "#), Some((8, 0, 8))),
            (format!(r#"{{{usage}, "data": [{long} 1]}}"#), Some((8, 0, 8))),
            // A key deeper inside, and words of a text, are no usage.
            (format!(r#"{{"data": [{long} 1], "x": {{{usage}}}}}"#), None),
            (format!(r#"{{"data": [{long} {{{usage}}}]}}"#), None),
            (format!(r#"{{"data": [{long} 1], "x": "{{\"usage\": {{\"prompt_tokens\": 8}}}}"}}"#), None),
            (format!(r#"{{{usage}, "data": [{long} 1], "x": "a, \"usage"}}"#), Some((8, 0, 8))),
            (format!(r#"{{{usage}, "data": [{long} 1], "x": ["usage"]}}"#), Some((8, 0, 8))),
        ];
        for (body, expected) in rows {
            assert_eq!(told(&body), expected, "{}", &body[body.len() - 90..]);
        }
    }

    #[test]
    fn later_counts_of_a_stream_take_the_place_of_earlier_ones() {
        let tell = |events: &[&str]| {
            let mut counts = Counts::default();
            for event in events {
                if let Some(found) = Counts::of(event.as_bytes()) {
                    counts.observe(found);
                }
            }
            counts.usage().map(|usage| (usage.input, usage.output, usage.total))
        };
        assert_eq!(
            tell(&[
                r#"{"type": "message_start", "message": {"usage": {"input_tokens": 8, "output_tokens": 1}}}"#,
                r#"{"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}"#,
                r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}"#,
            ]),
            Some((8, 4, 12))
        );
        assert_eq!(
            tell(&[
                r#"{"usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8}}"#,
                r#"{"usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 4, "totalTokenCount": 20}}"#,
            ]),
            Some((8, 4, 20))
        );
        assert_eq!(tell(&[r#"{"usage": {"output_tokens": 4}}"#]), None);
        assert_eq!(tell(&[]), None);
    }
}
