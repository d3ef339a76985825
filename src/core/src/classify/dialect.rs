//! Whose way of speaking an answer uses: from the URL's host, else from headers and the body's shape.
//!
//! The same words mean opposite things at different providers, so the dialect picks the table. A dialect that
//! is not recognised costs little: the shared tables know what most say.

use super::facts::Facts;
use super::table::Table;
use super::{clouds, google, labs, routers, servers};
use crate::hint::Headers;

/// Writes the enum, its names and its tables from one list.
macro_rules! dialects {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $table:expr, $hosts:expr;)+) => {
        /// Whose way of speaking an answer uses.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum Dialect {
            /// When nobody in particular was recognised.
            #[default]
            Generic,
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Dialect {
            /// Every dialect, `Generic` first.
            pub const ALL: &[Dialect] = &[Self::Generic, $(Self::$variant,)+];

            /// The name users read and write, for example `"openai"`.
            pub const fn name(self) -> &'static str {
                match self { Self::Generic => "generic", $(Self::$variant => $name,)+ }
            }

            pub(super) fn table(self) -> &'static Table {
                match self { Self::Generic => &Table::PLAIN, $(Self::$variant => $table,)+ }
            }

            /// Pieces of host names; one that starts with a dot or ends with one fits only there.
            fn hosts(self) -> &'static [&'static str] {
                match self { Self::Generic => &[], $(Self::$variant => $hosts,)+ }
            }
        }
    };
}

dialects! {
    /// When GitHub Models speaks.
    GitHubModels "github-models" &labs::GITHUB_MODELS, &["models.github.ai", "models.inference.ai.azure.com"];
    /// When OpenAI's API speaks.
    OpenAi "openai" &labs::OPENAI, &["api.openai.com"];
    /// When Azure OpenAI or Azure AI Foundry speaks.
    Azure "azure" &clouds::AZURE, &[".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com", ".azure-api.net"];
    /// When Anthropic's Claude API speaks.
    Anthropic "anthropic" &labs::ANTHROPIC, &["api.anthropic.com"];
    /// When the Gemini API speaks, in either of its styles.
    Gemini "gemini" &google::GEMINI, &["generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com"];
    /// When Vertex AI speaks.
    Vertex "vertex" &google::VERTEX, &["aiplatform.googleapis.com"];
    /// When Amazon Bedrock's runtime speaks.
    Bedrock "bedrock" &clouds::BEDROCK, &["bedrock-runtime.", "bedrock-runtime-fips.", "bedrock."];
    /// When Mistral speaks.
    Mistral "mistral" &labs::MISTRAL, &["api.mistral.ai", "codestral.mistral.ai"];
    /// When Cohere speaks.
    Cohere "cohere" &labs::COHERE, &["api.cohere.com", "api.cohere.ai"];
    /// When Groq speaks.
    Groq "groq" &servers::GROQ, &["api.groq.com"];
    /// When OpenRouter speaks.
    OpenRouter "openrouter" &routers::OPENROUTER, &["openrouter.ai"];
    /// When xAI speaks.
    Xai "xai" &labs::XAI, &["api.x.ai", ".api.x.ai"];
    /// When DeepSeek speaks.
    DeepSeek "deepseek" &Table::PLAIN, &["api.deepseek.com"];
    /// When Together speaks.
    Together "together" &servers::TOGETHER, &["api.together.xyz", "api.together.ai"];
    /// When Fireworks speaks.
    Fireworks "fireworks" &servers::FIREWORKS, &["api.fireworks.ai"];
    /// When Hugging Face or its text-generation server speaks.
    HuggingFace "huggingface" &servers::HUGGING_FACE, &["huggingface.co", "hf.co", ".huggingface.cloud", ".hf.space"];
    /// When Cloudflare Workers AI or its AI Gateway speaks.
    Cloudflare "cloudflare" &clouds::CLOUDFLARE, &["api.cloudflare.com", "gateway.ai.cloudflare.com"];
    /// When Cerebras speaks.
    Cerebras "cerebras" &servers::CEREBRAS, &["api.cerebras.ai"];
    /// When Alibaba Model Studio (DashScope) speaks.
    Alibaba "alibaba" &clouds::ALIBABA, &[".aliyuncs.com"];
    /// When Moonshot (Kimi) speaks.
    Moonshot "moonshot" &labs::MOONSHOT, &["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"];
    /// When Z.ai (Zhipu, BigModel) speaks.
    Zai "zai" &labs::ZAI, &["api.z.ai", "open.bigmodel.cn"];
    /// When Databricks model serving speaks.
    Databricks "databricks" &clouds::DATABRICKS, &[".databricks.com", ".azuredatabricks.net"];
    /// When Ollama speaks.
    Ollama "ollama" &servers::OLLAMA, &["ollama.com"];
    /// When a llama.cpp server speaks.
    LlamaCpp "llama.cpp" &servers::LLAMA_CPP, &[];
    /// When a vLLM server speaks.
    Vllm "vllm" &servers::VLLM, &[];
    /// When a LiteLLM proxy speaks.
    LiteLlm "litellm" &routers::LITELLM, &[];
    /// When Portkey's gateway speaks.
    Portkey "portkey" &routers::PORTKEY, &["api.portkey.ai"];
    /// When Perplexity speaks.
    Perplexity "perplexity" &Table::PLAIN, &["api.perplexity.ai"];
}

impl Dialect {
    /// The dialect of that name, in any case; `None` for a name that is not known.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dialect| dialect.name().eq_ignore_ascii_case(name))
    }

    /// The dialect of the host in `url`; `Generic` when the host tells nothing.
    pub fn of_url(url: &str) -> Self {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let host = authority.rsplit('@').next().unwrap_or(authority);
        let host = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
        Self::ALL
            .iter()
            .copied()
            .find(|dialect| dialect.hosts().iter().any(|piece| fits(&host, piece)))
            .unwrap_or_default()
    }

    /// The dialect that headers and the body's shape give away.
    pub(super) fn of_shape(headers: &Headers<'_>, facts: &Facts) -> Self {
        SHAPES.iter().find(|(_, is_it)| is_it(headers, facts)).map_or(Self::Generic, |(dialect, _)| *dialect)
    }
}

type Sign = fn(&Headers<'_>, &Facts) -> bool;

/// Signs by which a dialect is known, surest first.
const SHAPES: &[(Dialect, Sign)] = &[
    (Dialect::Bedrock, |headers, _| {
        header(headers, "x-amzn-errortype") || header(headers, ":exception-type")
    }),
    (Dialect::Bedrock, |_, facts| facts.words.iter().any(|word| word.ends_with("exception"))),
    (Dialect::Portkey, |headers, _| header(headers, "x-portkey-trace-id")),
    (Dialect::Azure, |headers, _| header(headers, "apim-request-id")),
    (Dialect::Vertex, |_, facts| {
        facts.text.contains("vertexaiexception") || facts.text.contains("aiplatform.googleapis.com")
    }),
    (Dialect::Gemini, |_, facts| {
        facts.text.contains("geminiexception") || facts.limits.contains("generativelanguage.googleapis.com")
    }),
    (Dialect::Gemini, |_, facts| GRPC.iter().any(|name| facts.has_word(name))),
    (Dialect::Anthropic, |headers, facts| {
        headers.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("anthropic-"))
            || facts.text.contains("anthropicexception")
    }),
    (Dialect::Anthropic, |_, facts| {
        facts.has_key("type")
            && facts.has_key("error")
            && facts.words.first().is_some_and(|word| word == "error")
    }),
    (Dialect::LiteLlm, |_, facts| facts.text.contains("litellm.")),
    (Dialect::Cloudflare, |_, facts| facts.has_key("success") && facts.has_key("errors")),
    (Dialect::OpenRouter, |_, facts| facts.words.iter().any(|word| word.starts_with("openrouter"))),
    (Dialect::GitHubModels, |headers, _| header(headers, "x-ratelimit-type")),
    (Dialect::Databricks, |_, facts| facts.has_key("error_code")),
    (Dialect::Alibaba, |_, facts| {
        facts.has_key("request_id") && facts.has_key("code") && facts.has_key("message")
    }),
    (Dialect::Zai, |_, facts| {
        facts.words.first().is_some_and(|word| is_zai_code(word)) && facts.words.len() == 1
    }),
    (Dialect::HuggingFace, |_, facts| facts.has_key("error_type") || facts.has_key("estimated_time")),
    (Dialect::Cohere, |_, facts| facts.keys.len() == 2 && facts.has_key("id") && facts.has_key("message")),
    (Dialect::Vllm, |_, facts| {
        ["badrequesterror", "notfounderror", "internalservererror", "notimplementederror"]
            .iter()
            .any(|word| facts.has_word(word))
    }),
    (Dialect::LlamaCpp, |_, facts| {
        ["exceedcontextsizeerror", "unavailableerror", "notsupportederror"]
            .iter()
            .any(|word| facts.has_word(word))
    }),
];

/// Names of gRPC statuses that no other provider writes.
const GRPC: &[&str] = &["resourceexhausted", "failedprecondition", "invalidargument", "unauthenticated"];

fn is_zai_code(word: &str) -> bool {
    word.len() == 4 && word.starts_with('1') && word.bytes().all(|b| b.is_ascii_digit())
}

fn header(headers: &Headers<'_>, name: &str) -> bool {
    headers.iter().any(|(held, _)| held.eq_ignore_ascii_case(name))
}

fn fits(host: &str, piece: &str) -> bool {
    if let Some(domain) = piece.strip_prefix('.') {
        host == domain || host.ends_with(piece)
    } else if piece.ends_with('.') {
        host.starts_with(piece)
    } else {
        host.strip_suffix(piece).is_some_and(|before| before.is_empty() || before.ends_with(['.', '-']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_dialect() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::from_name(&dialect.name().to_uppercase()), Some(*dialect));
        }
        assert_eq!(Dialect::from_name("auto"), None);
    }

    #[test]
    fn the_host_tells_the_dialect_and_nothing_else_of_the_url_does() {
        let rows = [
            ("https://api.openai.com/v1/chat/completions", Dialect::OpenAi),
            ("https://us-central1-aiplatform.googleapis.com/v1/x", Dialect::Vertex),
            ("https://example.openai.azure.com:443/openai?x=1", Dialect::Azure),
            ("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/invoke", Dialect::Bedrock),
            ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", Dialect::Alibaba),
            ("https://user:pw@API.GROQ.com/openai/v1", Dialect::Groq),
            ("https://us.api.openai.com/v1", Dialect::OpenAi),
            ("https://example.com/?u=https://api.openai.com/", Dialect::Generic),
            ("https://notapi.openai.com.evil.test/", Dialect::Generic),
            ("http://127.0.0.1:11434/api/chat", Dialect::Generic),
            ("", Dialect::Generic),
        ];
        for (url, expected) in rows {
            assert_eq!(Dialect::of_url(url), expected, "{url}");
        }
    }
}
