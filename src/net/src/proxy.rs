//! Which way a call goes: through the caller's proxy, through one that the environment names, or to the host itself.
//!
//! Decided here, once per call, and not by the client library. It passes over a variable that it cannot read, and
//! the host is reached without the proxy that somebody put before it; and its `NO_PROXY` knows neither ports, nor
//! brackets, nor that `*` is every host.

use std::env;
use std::ffi::OsString;
use std::net::IpAddr;

use crate::transport::{SetupError, Url, Via};
use crate::url;

/// Which way, and the variable of the environment that says so.
pub type Chosen = (Via, Option<&'static str>);

/// The proxy that a caller gave.
///
/// # Errors
/// It is no URL of an http or https proxy. The text itself may hold a password: it is never quoted.
pub fn given(text: &str) -> Result<Via, SetupError> {
    read(text).map(Via::Proxy).map_err(|detail| SetupError { field: "proxy", detail })
}

/// What the environment says for a call to `url`. Of each pair of names the upper-case one wins; empty is unset.
///
/// # Errors
/// The variable that holds no URL of an http or https proxy, if the call would go through it.
pub fn of_environment(url: &Url) -> Result<Chosen, SetupError> {
    choose(url, |name| env::var_os(name))
}

fn choose(url: &Url, variable: impl Fn(&str) -> Option<OsString>) -> Result<Chosen, SetupError> {
    let filled = |name| variable(name).filter(|value| !value.to_string_lossy().trim().is_empty());
    let names = match url.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let exceptions = filled("NO_PROXY").or_else(|| filled("no_proxy"));
    if exceptions.is_some_and(|list| excepts(&list.to_string_lossy(), url)) {
        return Ok((Via::Direct, None));
    }
    // A CGI server puts a request's `Proxy:` header into HTTP_PROXY.
    let forged = |name| name == "HTTP_PROXY" && variable("REQUEST_METHOD").is_some();
    let mut set = names.into_iter().filter(|name| !forged(*name));
    let Some((name, value)) = set.find_map(|name| Some((name, filled(name)?))) else {
        return Ok((Via::System, None));
    };
    let proxy = value.to_str().ok_or_else(|| "one that is not text".to_owned()).and_then(read);
    match proxy {
        Ok(proxy) => Ok((Via::Proxy(proxy), Some(name))),
        Err(detail) => Err(SetupError { field: name, detail }),
    }
}

/// A proxy's URL; without a scheme it is an http proxy.
fn read(text: &str) -> Result<Url, String> {
    let text = text.trim();
    if text.contains("://") {
        return url::parse(text);
    }
    match url::parse(&format!("http://{text}"))? {
        // `http:/host`, most likely.
        url if url.path() != "/" => Err("one with a path and without a scheme".to_owned()),
        url => Ok(url),
    }
}

/// Whether `NO_PROXY` names the host: `*`, `host` and `.host` (the host and everything under it), an address, a
/// network; each of them with a port, too.
fn excepts(list: &str, url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let address = host.parse::<IpAddr>().ok();
    list.split(|c: char| c == ',' || c.is_whitespace()).filter(|entry| !entry.is_empty()).any(|entry| {
        let (name, port) = split_port(entry);
        (port.is_none() || port == url.port_or_known_default())
            && (name == "*" || address.map_or_else(|| is_under(host, name), |address| covers(name, address)))
    })
}

/// The port behind a name, an address or brackets; an IPv6 address without brackets has none.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        return (address, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    let split = entry.split_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
    split.map_or((entry, None), |(name, port)| (name, Some(port)))
}

fn is_under(host: &str, name: &str) -> bool {
    let name = name.strip_prefix('*').unwrap_or(name).trim_matches('.');
    let above = host.len().checked_sub(name.len()).and_then(|at| host.split_at_checked(at));
    !name.is_empty()
        && above.is_some_and(|(under, end)| {
            end.eq_ignore_ascii_case(name) && (under.is_empty() || under.ends_with('.'))
        })
}

fn covers(name: &str, address: IpAddr) -> bool {
    let (network, bits) = name.split_once('/').map_or((name, None), |(network, bits)| (network, Some(bits)));
    let Ok(network) = network.parse::<IpAddr>() else {
        return false;
    };
    let (differ, size) = match (network.to_canonical(), address.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(u32::from(one) ^ u32::from(other)), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (u128::from(one) ^ u128::from(other), 128),
        _ => return false,
    };
    match bits.map_or(Ok(size), str::parse::<u32>) {
        Ok(bits) if bits <= size => differ.checked_shr(size - bits).unwrap_or_default() == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(settings: &[(&str, &str)], url: &str) -> Result<Chosen, SetupError> {
        let value =
            |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        choose(&url.parse().unwrap(), value)
    }

    fn proxy(url: &str) -> Via {
        Via::Proxy(url.parse().unwrap())
    }

    #[test]
    fn the_first_variable_of_the_scheme_that_is_not_empty_names_the_proxy() {
        let all = [("ALL_PROXY", "http://all"), ("http_proxy", "lower:3128"), ("HTTPS_PROXY", "")];
        assert_eq!(under(&all, "http://h/"), Ok((proxy("http://lower:3128/"), Some("http_proxy"))));
        assert_eq!(under(&all, "https://h/"), Ok((proxy("http://all/"), Some("ALL_PROXY"))));
        let upper = [("HTTP_PROXY", "upper"), ("http_proxy", "lower")];
        assert_eq!(under(&upper, "http://h/"), Ok((proxy("http://upper/"), Some("HTTP_PROXY"))));
        assert_eq!(under(&upper, "https://h/"), Ok((Via::System, None)));
        let cgi = [("HTTP_PROXY", "evil"), ("REQUEST_METHOD", "GET")];
        assert_eq!(under(&cgi, "http://h/"), Ok((Via::System, None)));
    }

    #[test]
    fn a_variable_that_holds_no_proxy_is_named_without_its_value_if_the_call_would_go_through_it() {
        for value in [
            "ftp://user:SECRET@x",
            "socks5://user:SECRET@x:1080",
            "http://user:SECRET@x:notaport",
            "http://user:SECRET@x:99999",
            "user:SECRET@x:notaport",
            "http://",
            "http:/x",
            "http:///x",
            "http://DOMAIN\\SECRET:p@x",
        ] {
            for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
                let error = under(&[(name, value)], "http://h/").unwrap_err();
                assert_eq!(error.field, name, "{value}");
                assert!(!error.to_string().contains("SECRET"), "{error}");
                assert_eq!(under(&[(name, value), ("NO_PROXY", "h")], "http://h/"), Ok((Via::Direct, None)));
            }
            assert_eq!(under(&[("http_proxy", value)], "https://h/"), Ok((Via::System, None)));
            assert_eq!(given(value).unwrap_err().field, "proxy");
        }
    }

    #[test]
    fn no_proxy_knows_its_forms() {
        let rows = [
            ("*", "http://any.example/", true),
            ("*", "http://10.0.0.1/", true),
            ("*", "http://[::1]/", true),
            ("x, *", "http://10.0.0.1/", true),
            ("example.com", "http://example.com/", true),
            ("EXAMPLE.com.", "http://example.com/", true),
            ("example.com", "http://a.b.example.com./", true),
            ("example.com", "http://notexample.com/", false),
            ("example.com", "http://example.com.evil/", false),
            (".example.com", "http://a.example.com/", true),
            (".example.com", "http://example.com/", true),
            ("*.example.com", "http://a.example.com/", true),
            ("example.com:8080", "http://example.com:8080/", true),
            ("example.com:8080", "http://example.com/", false),
            ("example.com:443", "https://example.com/", true),
            ("example.com:443", "http://example.com/", false),
            ("a b\tc", "http://b/", true),
            ("127.0.0.1", "http://127.0.0.1:9/", true),
            ("127.0.0.1", "http://127.0.0.2/", false),
            ("127.0.0.1:9", "http://127.0.0.1:9/", true),
            ("127.0.0.1:9", "http://127.0.0.1:8/", false),
            ("0.0.1", "http://127.0.0.1/", false),
            ("10.0.0.0/8", "http://10.200.3.4/", true),
            ("10.0.0.0/8", "http://11.0.0.1/", false),
            ("0.0.0.0/0", "http://11.0.0.1/", true),
            ("10.0.0.0/33", "http://10.0.0.0/", false),
            ("10.0.0.0/8", "http://[::1]/", false),
            ("::1", "http://[::1]/", true),
            ("[::1]", "http://[::1]:9/", true),
            ("[::1]:9", "http://[::1]:9/", true),
            ("[::1]:9", "http://[::1]:8/", false),
            ("fd00::/8", "http://[fd12::1]/", true),
            ("::/0", "http://[fd12::1]/", true),
            ("fd00::/8", "http://[fe80::1]/", false),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/", true),
            ("localhost", "http://127.0.0.1/", false),
            ("*.", "http://h/", false),
            (".", "http://h/", false),
            (",", "http://h/", false),
        ];
        for (list, url, expected) in rows {
            assert_eq!(excepts(list, &url.parse().unwrap()), expected, "{list} {url}");
        }
    }
}
