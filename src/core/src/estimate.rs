//! How many tokens a request will cost, before a model has counted them.
//!
//! The UTF-8 bytes of its text over three - on the safe side for English, about right for code and for other scripts -
//! plus the output it asks for, and a flat thousand for each picture, sound or file sent inline. Read from the JSON as
//! it is sent, without building it: a string is looked at and forgotten. What is not JSON counts as text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Bytes of text that make a token.
const BYTES_PER_TOKEN: u64 = 3;

/// Tokens of one inline picture, sound or file.
const MEDIA: u64 = 1_000;

/// The tokens that a request with this body is expected to cost.
pub fn tokens(body: &[u8]) -> u64 {
    let mut sum = Sum::default();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = Value { sum: &mut sum, role: Role::Text, listed: false }.deserialize(&mut reader);
    match read {
        Ok(()) => sum.tokens(),
        Err(_) => (body.len() as u64).div_ceil(BYTES_PER_TOKEN),
    }
}

#[derive(Debug, Default)]
struct Sum {
    text: u64,
    media: u64,
    /// Numbers in lists of an input: tokens counted already.
    counted: u64,
    output: u64,
    answers: u64,
}

impl Sum {
    fn tokens(&self) -> u64 {
        let output = self.output.saturating_mul(self.answers.max(1));
        let media = self.media.saturating_mul(MEDIA);
        self.text
            .div_ceil(BYTES_PER_TOKEN)
            .saturating_add(media)
            .saturating_add(self.counted)
            .saturating_add(output)
    }
}

/// What a value is, told by its key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// When strings in it are read by the model.
    Text,
    /// When it is an input, whose numbers may be tokens.
    Input,
    /// When it names, types or steers something.
    Other,
    /// When it holds a file.
    Media,
    /// When it is the most output that is asked for.
    Output,
    /// When it is how many answers are asked for.
    Answers,
}

/// Every provider's spellings; a key that is not in the table holds text, which errs on the safe side.
fn role(key: &str) -> Role {
    match key {
        "input" | "prompt" | "texts" | "tokens" => Role::Input,
        "model"
        | "type"
        | "role"
        | "id"
        | "call_id"
        | "tool_call_id"
        | "tool_use_id"
        | "user"
        | "metadata"
        | "service_tier"
        | "mime_type"
        | "mimeType"
        | "media_type"
        | "file_id"
        | "fileUri"
        | "file_uri"
        | "previous_response_id"
        | "safety_identifier"
        | "prompt_cache_key"
        | "cache_control"
        | "tool_choice"
        | "response_mime_type"
        | "responseMimeType"
        | "safetySettings"
        | "encoding_format"
        | "signature" => Role::Other,
        "data" | "file_data" | "b64_json" | "bytes" | "image" | "images" => Role::Media,
        "max_tokens"
        | "max_completion_tokens"
        | "max_output_tokens"
        | "maxOutputTokens"
        | "maxTokens"
        | "max_new_tokens"
        | "max_tokens_to_sample"
        | "maxTokenCount"
        | "max_gen_len"
        | "num_predict" => Role::Output,
        "n" | "candidateCount" | "candidate_count" | "num_generations" => Role::Answers,
        _ => Role::Text,
    }
}

struct Value<'a> {
    sum: &'a mut Sum,
    role: Role,
    /// Whether it stands in a list, however deep: messages do, and how to answer them does not.
    listed: bool,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        match self.role {
            Role::Other => reader.deserialize_ignored_any(IgnoredAny).map(drop),
            _ => reader.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        match self.role {
            Role::Output if !self.listed => self.sum.output = self.sum.output.max(number),
            Role::Answers if !self.listed => self.sum.answers = self.sum.answers.max(number),
            Role::Input if self.listed => self.sum.counted = self.sum.counted.saturating_add(1),
            _ => {}
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        // Negative: Ollama's "no limit"; nothing is known of it.
        u64::try_from(number).map_or(Ok(()), |number| self.visit_u64(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.visit_u64(number as u64)
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.role == Role::Media || text.starts_with("data:") {
            self.sum.media = self.sum.media.saturating_add(1);
        } else {
            self.sum.text = self.sum.text.saturating_add(text.len() as u64);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { sum, role, .. } = self;
        while list.next_element_seed(Value { sum: &mut *sum, role, listed: true })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(role) = map.next_key_seed(Key)? {
            map.next_value_seed(Value { sum: &mut *self.sum, role, listed: self.listed })?;
        }
        Ok(())
    }
}

/// Reads a key as the role of its value.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Role;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Role, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Role;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Role, E> {
        Ok(role(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_a_third_of_its_bytes_and_the_output_asked_for_is_added() {
        let chat = r#"{"model": "gpt-5", "max_completion_tokens": 100, "n": 2, "temperature": 0.5,
            "messages": [{"role": "user", "content": "twelve bytes"}, {"role": "user", "content": [
                {"type": "text", "text": "äöü"}]}]}"#;
        assert_eq!(tokens(chat.as_bytes()), 4 + 2 + 200);
        let gemini =
            r#"{"contents": [{"parts": [{"text": "abc"}]}], "generationConfig": {"maxOutputTokens": 7}}"#;
        assert_eq!(tokens(gemini.as_bytes()), 1 + 7);
    }

    #[test]
    fn inline_media_are_a_thousand_each_however_long() {
        let long = "A".repeat(100_000);
        let bodies = [
            format!(r#"{{"content": [{{"image_url": {{"url": "data:image/png;base64,{long}"}}}}]}}"#),
            format!(r#"{{"source": {{"type": "base64", "media_type": "image/png", "data": "{long}"}}}}"#),
            format!(r#"{{"parts": [{{"inlineData": {{"mimeType": "image/png", "data": "{long}"}}}}]}}"#),
            format!(r#"{{"images": ["{long}"]}}"#),
        ];
        assert_eq!(bodies.map(|body| tokens(body.as_bytes())), [1_000; 4]);
    }

    #[test]
    fn numbers_of_an_input_are_tokens_and_other_numbers_are_not() {
        assert_eq!(tokens(br#"{"input": [[1, 2, 3], [4]], "dimensions": 512, "seed": 9}"#), 4);
        assert_eq!(tokens(br#"{"options": {"num_predict": -1}}"#), 0);
    }

    #[test]
    fn what_a_message_calls_n_is_no_number_of_answers() {
        assert_eq!(tokens(br#"{"max_tokens": 5, "messages": [{"input": {"n": 100, "max_tokens": 9}}]}"#), 5);
    }

    #[test]
    fn what_is_not_json_counts_as_text() {
        assert_eq!([tokens(b""), tokens(b"{\"a\": 12"), tokens(&[0xff; 9])], [0, 3, 3]);
        assert_eq!(tokens("[".repeat(300).as_bytes()), 100);
    }

    proptest! {
        #[test]
        fn any_body_is_estimated_and_text_never_for_nothing(text in "\\PC{0,200}", noise in prop::collection::vec(any::<u8>(), 0..200)) {
            tokens(&noise);
            let body = serde_json::json!({"messages": [{"role": "user", "content": &text}]}).to_string();
            let expected = if text.starts_with("data:") { 1_000 } else { (text.len() as u64).div_ceil(3) };
            prop_assert_eq!(tokens(body.as_bytes()), expected);
        }
    }
}
