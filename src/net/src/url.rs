//! URLs as they are written, not as a browser would mend them.
//!
//! The parser takes `http:/host`, `http:///host`, a backslash for a slash and white space around it all. In an
//! address bar that is kind; in a program it hides a mistake, and a mistaken host is sent a key.

use crate::transport::Url;

/// Reads an http or https URL with a host.
///
/// # Errors
/// What kind of URL it is instead, to follow "not"; nothing of the text but its scheme.
pub fn parse(text: &str) -> Result<Url, String> {
    let wrong = |what: &str| Err(what.to_owned());
    if text.chars().any(char::is_control) {
        return wrong("one with control characters");
    }
    if text != text.trim() {
        return wrong("one with white space around it");
    }
    let Ok(url) = Url::parse(text) else {
        return wrong("one that cannot be read");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("one with the scheme {:?}", url.scheme()));
    }
    if text.contains('\\') {
        return wrong("one with a backslash");
    }
    match authority(text) {
        None => wrong("one without // after its scheme"),
        Some("") => wrong("one without a host"),
        Some(_) if url.has_host() => Ok(url),
        Some(_) => wrong("one without a host"),
    }
}

/// Host and port, and the credentials before them, as they stand in a URL.
#[must_use]
pub fn authority(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(':')?;
    rest.strip_prefix("//")?.split(['/', '?', '#']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_would_mend_is_refused() {
        for text in [
            "http:/host",
            "http:host",
            "http:///host",
            "http:\\\\host",
            "http://host\\path",
            " http://host/",
            "http://host/ ",
            "http://host/\u{a0}",
            "http://ho\tst/",
            "http://",
            "http:?x",
            "http://?x",
            "//host/",
            "ftp://host/",
            "",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_ordinary_url_is_read() {
        for text in ["http://host", "HTTPS://host:8443/a/b?c=d://e#f", "http://[::1]:80/", "http://u:p@host/"]
        {
            assert!(parse(text).is_ok(), "{text:?}");
        }
        assert_eq!(authority("http://u:p@host:1/a@b?c"), Some("u:p@host:1"));
    }
}
