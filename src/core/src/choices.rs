//! How many answers a request asks for, so that the end of one is not taken for the end of all.
//!
//! Read from the JSON as it is sent, whoever made it; a body that names no number is not parsed.

use memchr::memmem;

use crate::places::{self, Places};

/// The answers a body asks for: `n`, or Gemini's `candidateCount`; 1 where it does not say.
pub fn of(body: &[u8]) -> usize {
    let may_say = [&b"\"n\""[..], b"\"candidateCount\"", b"\"candidate_count\""];
    if !may_say.iter().any(|key| memmem::find(body, key).is_some()) {
        return 1;
    }
    let mut asked = Asked { count: 1 };
    places::read(body, Place::Outermost, &mut asked);
    asked.count
}

#[derive(Clone, Copy)]
enum Place {
    Outermost,
    /// Gemini's `generationConfig`.
    Config,
    Count,
}

struct Asked {
    count: usize,
}

impl Places<'_> for Asked {
    type Place = Place;

    fn key(&self, place: Place, key: &str) -> Option<Place> {
        match (place, key) {
            (Place::Outermost, "generationConfig" | "generation_config") => Some(Place::Config),
            (Place::Outermost, "n") | (Place::Config, "candidateCount" | "candidate_count") => {
                Some(Place::Count)
            }
            _ => None,
        }
    }

    fn number(&mut self, place: Place, number: u64) {
        if matches!(place, Place::Count) {
            self.count = usize::try_from(number).unwrap_or(usize::MAX).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_body_says_how_many_answers_it_asks_for() {
        for (body, count) in [
            (r#"{"n": 2, "messages": []}"#, 2),
            (r#"{"messages": [{"n": 5}], "generationConfig": {"candidateCount": 3}}"#, 3),
            (r#"{"generation_config": {"candidate_count": 3}}"#, 3),
            (r#"{"messages": [{"n": 5}]}"#, 1),
            (r#"{"n": null}"#, 1),
            (r#"{"n": 0}"#, 1),
            (r#"{"n": true}"#, 1),
            (r#"{"n": "2"}"#, 1),
            (r#"{"candidateCount": 2}"#, 1),
            ("", 1),
            ("[\"n\"]", 1),
        ] {
            assert_eq!(of(body.as_bytes()), count, "{body}");
        }
    }
}
