//! Which model a request is for: limits and health are kept by model, and only some providers name it in the path.
//!
//! Read from the JSON as it is sent; the reading ends where the name is found.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{Deserialize, Error, IgnoredAny, MapAccess, Visitor};

/// Path segments that a model's name follows: Gemini and Hugging Face, Azure, Bedrock.
const BEFORE: [&str; 4] = ["models", "deployments", "model", "endpoints"];

/// The model a request is for, told by its path or else by its body; `None` when neither names one.
pub fn of<'a>(path: &'a str, body: &'a [u8]) -> Option<Cow<'a, str>> {
    in_path(path).map(Cow::Borrowed).or_else(|| in_body(body))
}

/// As in `/v1beta/models/gemini-2.5-flash:generateContent`.
pub fn in_path(path: &str) -> Option<&str> {
    let mut segments = path.split('/');
    segments.find(|segment| BEFORE.contains(segment))?;
    let name = segments.next()?.split([':', '?']).next()?;
    (!name.is_empty()).then_some(name)
}

/// The string `model` of the outermost object.
pub fn in_body(body: &[u8]) -> Option<Cow<'_, str>> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(body);
    // It ends with an error as soon as the name is found; what stands behind it is nobody's business here.
    let _ = reader.deserialize_map(Outermost(&mut found));
    found
}

struct Outermost<'a, 'de>(&'a mut Option<Cow<'de, str>>);

impl<'de> Visitor<'de> for Outermost<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            if key == "model" {
                *self.0 = map.next_value::<Text<'de>>().ok().map(|Text(name)| name);
                return Err(A::Error::custom("found"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A string, borrowed where it holds no escapes.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Str;
        impl<'de> Visitor<'de> for Str {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        reader.deserialize_str(Str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_names_it_where_a_provider_puts_it_there() {
        let cases = [
            ("/v1beta/models/gemini-2.5-flash:generateContent", Some("gemini-2.5-flash")),
            ("/openai/deployments/mine/chat/completions", Some("mine")),
            ("/model/anthropic.claude-v2/invoke", Some("anthropic.claude-v2")),
            ("/v1/models", None),
            ("/v1/models/", None),
            ("/v1/chat/completions", None),
        ];
        for (path, model) in cases {
            assert_eq!(in_path(path), model, "{path}");
        }
    }

    #[test]
    fn a_body_names_it_in_its_outermost_object_only() {
        let cases: [(&[u8], Option<&str>); 7] = [
            (br#"{"messages":[{"model":"inner"}],"model":"outer"}"#, Some("outer")),
            (br#"{"model":"a\u0062c","messages":[]}"#, Some("abc")),
            (br#"{"model":"cut", "messages": ["#, Some("cut")),
            (br#"{"model":7}"#, None),
            (br#"["model"]"#, None),
            (b"no JSON", None),
            (b"", None),
        ];
        for (body, model) in cases {
            assert_eq!(in_body(body).as_deref(), model, "{}", String::from_utf8_lossy(body));
        }
    }

    proptest! {
        #[test]
        fn no_body_breaks_the_reading(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = in_body(&body);
        }
    }
}
