//! The floor of the bench: what the same HTTP library costs in pure Rust, JSON both ways included.
//!
//! Usage: `floor URL MODE COUNT [WARMUP]`. Each request serialises the 1 KB body anew and parses the answer into a
//! `serde_json::Value`, for the Python clients pay for both. Modes:
//!
//! - `sync1`, `large`: one request after another on a current-thread runtime (`large` only names the intent: the URL decides)
//! - `syncN`: N in flight on a runtime of 2 workers, the counterpart of N Python threads
//! - `asyncN`: N in flight on a current-thread runtime, the counterpart of one event loop
//! - `streamN`: the same, where each answer is a stream of events: every one is parsed and its text looked up
//!
//! Prints one JSON object: requests, wall_s, cpu_s (user and system of this process), rss_kib (before), peak_kib (since).

use std::{error::Error, io::Write as _, sync::Arc, time::Instant};

use reqwest::{Client, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Work {
    client: Client,
    streams: bool,
    url: String,
    payload: Value,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (url, mode, count, warmup) = match arguments.as_slice() {
        [url, mode, count] => (url, mode, count.parse()?, 0),
        [url, mode, count, warmup] => (url, mode, count.parse()?, warmup.parse()?),
        _ => return Err("usage: floor URL sync1|syncN|asyncN|large COUNT [WARMUP]".into()),
    };
    let (runtime, in_flight) = runtime(mode)?;
    // Only https needs a provider, but the client asks for one when it is built.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let work = Arc::new(Work {
        client: Client::new(),
        streams: mode.starts_with("stream"),
        url: url.clone(),
        payload: serde_json::from_str(include_str!("../data/request.json"))?,
    });
    runtime.block_on(run(&work, warmup, in_flight))?;

    forget_peak();
    let (rss, cpu, start) = (status_kib("VmRSS:"), cpu_seconds(), Instant::now());
    let requests = runtime.block_on(run(&work, count, in_flight))?;
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let report = json!({"requests": requests, "wall_s": wall, "cpu_s": cpu, "rss_kib": rss, "peak_kib": status_kib("VmHWM:")});
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

fn runtime(mode: &str) -> Result<(Runtime, usize)> {
    let current_thread = || Builder::new_current_thread().enable_all().build();
    let tasks = mode.strip_prefix("async").or_else(|| mode.strip_prefix("stream"));
    Ok(match (mode, mode.strip_prefix("sync"), tasks) {
        ("sync1" | "large", ..) => (current_thread()?, 1),
        (_, Some(threads), _) => {
            (Builder::new_multi_thread().worker_threads(2).enable_all().build()?, threads.parse()?)
        }
        (_, _, Some(in_flight)) => (current_thread()?, in_flight.parse()?),
        _ => return Err(format!("no such mode: {mode}").into()),
    })
}

/// Sends `count` requests, `in_flight` at a time, and returns how many were answered well.
async fn run(work: &Arc<Work>, count: usize, in_flight: usize) -> Result<usize> {
    if in_flight <= 1 {
        for _ in 0..count {
            request(work).await?;
        }
        return Ok(count);
    }
    let lanes = in_flight.min(count);
    let tasks: Vec<_> = (0..lanes)
        .map(|lane| {
            let (work, share) = (Arc::clone(work), count / lanes + usize::from(lane < count % lanes));
            tokio::spawn(async move {
                for _ in 0..share {
                    request(&work).await?;
                }
                Result::Ok(share)
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    Ok(done)
}

/// Reads a stream of events and returns how much text they bring.
async fn stream(mut response: reqwest::Response) -> Result<usize> {
    let (mut text, mut held) = (0, Vec::new());
    while let Some(chunk) = response.chunk().await? {
        held.extend_from_slice(&chunk);
        let mut from = 0;
        while let Some(end) = held.get(from..).and_then(|rest| rest.windows(2).position(|two| two == b"\n\n")) {
            let event = &held[from..from + end];
            from += end + 2;
            let data = event.strip_prefix(b"data: ").unwrap_or(event);
            if data != b"[DONE]" {
                let value: Value = serde_json::from_slice(data)?;
                text += value["choices"][0]["delta"]["content"].as_str().map_or(0, str::len);
            }
        }
        held.drain(..from);
    }
    Ok(text)
}

async fn request(work: &Work) -> Result<()> {
    let body = serde_json::to_vec(&work.payload)?;
    let response =
        work.client.post(&work.url).header(CONTENT_TYPE, "application/json").body(body).send().await?;
    if work.streams {
        let text = stream(response.error_for_status()?).await?;
        return if text == 5_000 { Ok(()) } else { Err("the stream is not whole".into()) };
    }
    let answer: Value = serde_json::from_slice(&response.error_for_status()?.bytes().await?)?;
    if std::hint::black_box(answer).is_object() { Ok(()) } else { Err("the answer is no object".into()) }
}

/// User and system time of this process. `/proc/self/stat` counts in ticks of 10 ms, too coarse for one round.
fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for one rusage; all of its bytes are set, and any bytes make a valid rusage.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Lets `VmHWM` start again from what is resident now (Linux; elsewhere the figure is missing).
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn status_kib(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}
