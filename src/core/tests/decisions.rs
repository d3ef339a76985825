//! Real failures, judged: `tests/cases/decisions.jsonl`, or the file named by `STEADYCALL_CASES`.
//!
//! A row is right when we retry as it says and, where it names a wait, wait at least that long and at most 1 s
//! or 2 % longer; or where it names a kind, find that kind. Hints above `MAX_WAIT` mean no retry now.

use std::path::PathBuf;

use serde_json::Value;
use steadycall_core::classify::{Answer, classify};
use steadycall_core::failure::{Failure, Kind};
use steadycall_core::hint::rfc3339;

const MAX_WAIT: f64 = 120.0;

/// Rows of low confidence that we decide otherwise, and why.
const DECIDED_OTHERWISE: &[(&str, &str)] = &[
    (
        "R044",
        "An empty but well-formed answer is billed and may be legitimate; `validate` is the place to ask for more.",
    ),
    (
        "P128",
        "R043, of higher confidence, is the same body and says that a broken call is the model's outcome, not the wire's.",
    ),
];

#[test]
fn real_failures_are_judged_right() {
    let rows = rows();
    let (mut sure, mut right, mut low, mut low_right) = (0, 0, 0, 0);
    let mut misses = Vec::new();
    for row in &rows {
        let id = row["id"].as_str().unwrap_or("?");
        let verdict = judge(row);
        let is_low = row["confidence"] == "low";
        let (count, hits) = if is_low { (&mut low, &mut low_right) } else { (&mut sure, &mut right) };
        *count += 1;
        match verdict {
            Ok(()) => *hits += 1,
            Err(why) => {
                let known =
                    DECIDED_OTHERWISE.iter().find(|(known, _)| *known == id).map_or("", |(_, reason)| reason);
                misses.push(format!(
                    "  {id} ({}): {why}. {known} [{}]",
                    row["confidence"].as_str().unwrap_or(""),
                    row["why"].as_str().unwrap_or("")
                ));
                assert!(!is_low || !known.is_empty(), "{id} is missed without a written reason: {why}");
            }
        }
    }
    let percent = 100.0 * f64::from(right) / f64::from(sure.max(1));
    println!(
        "classify: {right} of {sure} rows right that are not low confidence ({percent:.1} %); {low_right} of {low} low ones"
    );
    misses.iter().for_each(|miss| println!("{miss}"));
    assert!(percent >= 98.0, "{percent:.1} %");
}

fn rows() -> Vec<Value> {
    let path = std::env::var_os("STEADYCALL_CASES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/decisions.jsonl"),
        PathBuf::from,
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).expect("a row is JSON"))
        .collect()
}

fn judge(row: &Value) -> Result<(), String> {
    let failure = classify_row(&row["input"]);
    let seconds = failure.as_ref().and_then(|f| f.hint.as_ref()).map(|hint| hint.seconds);
    let too_long = seconds.is_some_and(|seconds| seconds > MAX_WAIT);
    let retries = failure.as_ref().is_some_and(|failure| failure.retryable) && !too_long;
    let expect = &row["expect"];
    let seen = || match &failure {
        None => "judged a good answer".to_owned(),
        Some(f) => format!("judged {} as {} with hint {seconds:?}", f.kind.name(), f.reason.name()),
    };
    if Some(retries) != expect["retry"].as_bool() {
        return Err(seen());
    }
    let kind_is_right = |name: &str| failure.as_ref().is_some_and(|failure| failure.kind.name() == name);
    match (&expect["kind"], &expect["wait_s"]) {
        (Value::String(kind), _) if !kind_is_right(kind) => Err(seen()),
        (_, Value::Number(wait)) => {
            let wait = wait.as_f64().unwrap_or_default();
            let most = wait + f64::max(1.0, wait * 0.02);
            if seconds.is_some_and(|seconds| seconds >= wait && seconds <= most) {
                Ok(())
            } else {
                Err(seen())
            }
        }
        (_, Value::String(_)) if seconds.is_some() => Err(seen()),
        _ => Ok(()),
    }
}

fn classify_row(input: &Value) -> Option<Failure> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for pair in input["headers_list"].as_array().into_iter().flatten() {
        headers.push((text(&pair[0]), text(&pair[1])));
    }
    if headers.is_empty() {
        headers.extend(
            input["headers"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), text(value))),
        );
    }
    let headers: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let body = match &input["body_base64"] {
        Value::String(encoded) => base64(encoded),
        _ => text(&input["body_text"]).into_bytes(),
    };
    classify(&Answer {
        status: input["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default(),
        headers: &headers,
        body: &body,
        url: input["url"].as_str(),
        now: input["now"].as_str().and_then(rfc3339),
        dialect: None,
    })
}

fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut held, mut out) = (0_u32, 0, Vec::new());
    for digit in text.bytes().filter_map(|b| ALPHABET.iter().position(|a| *a == b)) {
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[test]
fn a_kind_that_is_no_retry_is_never_retryable() {
    for row in rows() {
        if let Some(failure) = classify_row(&row["input"]) {
            assert_eq!(failure.retryable, failure.kind != Kind::Permanent, "{}", row["id"]);
        }
    }
}
