//! The server of the bench: one thread, loopback, HTTP/1.1 keep-alive, canned answers.
//!
//! Prints `PORT` on one line, then serves until its standard input closes, so that it never outlives the bench. It is
//! compiled and runs in its own process because a slow server would hide what the clients cost; client CPU is the
//! figure that counts, so all that is asked of it is to be never the bottleneck and never the cause of a failure.
//!
//! | path      | answer                                                                     |
//! |-----------|----------------------------------------------------------------------------|
//! | /small    | about 0.9 KB, in Gemini's shape                                              |
//! | /large    | about 200 KB: 13 embeddings of 768 floats                                    |
//! | /slow50   | as /small, 50 ms later                                                       |
//! | /busy     | 503 with an error object, for the check of what a retry imports              |
//! | /stream   | 1,000 server-sent events of about 170 bytes, each written by itself          |
//! | else      | 404                                                                        |

use std::{
    convert::Infallible,
    fmt::Write as _,
    io::Read as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;

const SMALL: &[u8] = include_bytes!("../data/answer.json");
const BUSY: &[u8] =
    br#"{"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}"#;
const EVENTS: usize = 1_000;
const EVENT: &[u8] = br#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"some-model","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}

"#;
const END: &[u8] = b"data: [DONE]\n\n";
const EMBEDDINGS: usize = 13;
const DIMENSIONS: usize = 768;
/// A thousand clients connect in one burst; the kernel's own limit may cut this.
const BACKLOG: u32 = 4096;

fn main() -> std::io::Result<()> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve())
}

async fn serve() -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    println!("{}", listener.local_addr()?.port());
    let large = Bytes::from(large());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let large = large.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, large.clone()));
            // An error here is a client that went away; the bench sees it on the client's side.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Events that are each written by themselves, as a model makes them.
struct Stream {
    left: usize,
    rests: bool,
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.rests = !self.rests;
        if self.rests {
            // Whoever writes puts together what is there at once; so nothing is.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(if left == 0 { END } else { EVENT })))))
    }
}

type Answer = Either<Full<Bytes>, Stream>;

async fn answer(request: Request<Incoming>, large: Bytes) -> Result<Response<Answer>, Infallible> {
    let (parts, mut body) = request.into_parts();
    while let Some(Ok(_)) = body.frame().await {}
    if parts.uri.path() == "/stream" {
        let mut response = Response::new(Either::Right(Stream { left: EVENTS + 1, rests: false }));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        return Ok(response);
    }
    let (status, bytes) = match parts.uri.path() {
        "/small" => (StatusCode::OK, Bytes::from_static(SMALL)),
        "/large" => (StatusCode::OK, large),
        "/slow50" => {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (StatusCode::OK, Bytes::from_static(SMALL))
        }
        "/busy" => (StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(BUSY)),
        _ => (StatusCode::NOT_FOUND, Bytes::new()),
    };
    let mut response = Response::new(Either::Left(Full::new(bytes)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
    Ok(response)
}

/// The large answer: floats with as many digits as a double needs, the same in every run.
fn large() -> String {
    let mut state = 1_u64;
    let mut text = String::from("{\"embeddings\": [");
    for vector in 0..EMBEDDINGS {
        text.push_str(if vector == 0 { "{\"values\": [" } else { ", {\"values\": [" });
        for index in 0..DIMENSIONS {
            let comma = if index == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{}", unit(&mut state) * 0.2 - 0.1);
        }
        text.push_str("]}");
    }
    text.push_str("]}");
    text
}

/// splitmix64, the top 53 bits as a number in [0, 1).
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
