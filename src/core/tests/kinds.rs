//! What each provider can send, one line each: status, where from, body, and the kind it must be judged as.
//!
//! Complements `decisions.rs`: those rows happened, these are what documents and sources of the providers name.
//! `R` rate limited, `C` call, `P` permanent, `-` a good answer; a number is the hint in seconds.

use steadycall_core::classify::{Answer, Dialect, StatusSet, classify, classify_with, surely_good};
use steadycall_core::failure::{Failure, Kind, Reason, Sent};
use steadycall_core::hint::rfc3339;

type Headers<'a> = &'a [(&'a str, &'a str)];

fn judge(status: u16, url: &str, headers: Headers<'_>, body: &str) -> Option<Failure> {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let now = rfc3339("2026-11-30T12:00:00Z");
    let url = (!url.is_empty()).then(|| format!("https://{url}/v1/x"));
    classify(&Answer {
        status,
        headers: &headers,
        body: body.as_bytes(),
        url: url.as_deref(),
        now,
        dialect: None,
    })
}

fn letter(failure: Option<&Failure>) -> char {
    match failure.map(|failure| failure.kind) {
        None => '-',
        Some(Kind::Call) => 'C',
        Some(Kind::RateLimited) => 'R',
        Some(Kind::Permanent) => 'P',
        Some(Kind::Validation) => 'V',
    }
}

#[track_caller]
fn all(url: &str, rows: &[(char, u16, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(expected, status, body)| {
            let failure = judge(*status, url, &[], body);
            let found = letter(failure.as_ref());
            assert!(
                found == '-' || !surely_good(*status, None, body.as_bytes()),
                "the short cut misses {body}"
            );
            (found != *expected).then(|| {
                format!("{status} {body}\n   is {found} ({:?}), not {expected}", failure.map(|f| f.reason))
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", url, wrong.join("\n"));
}

#[test]
fn openai_is_read_right() {
    all(
        "api.openai.com",
        &[
            (
                'P',
                401,
                r#"{"error":{"message":"No such organization: org-x.","type":"invalid_request_error","param":null,"code":"invalid_organization"}}"#,
            ),
            (
                'P',
                403,
                r#"{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","code":"unsupported_country_region_territory"}}"#,
            ),
            (
                'P',
                404,
                r#"{"error":{"message":"The model `x` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}"#,
            ),
            (
                'P',
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            (
                'P',
                400,
                r#"{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}}"#,
            ),
            (
                'P',
                429,
                r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
            ),
            (
                'P',
                429,
                r#"{"error":{"message":"x","type":"insufficient_quota","param":null,"code":"credit_balance_exhausted"}}"#,
            ),
            (
                'P',
                429,
                r#"{"error":{"message":"x","type":"insufficient_quota","param":null,"code":"organization_usage_limit_exceeded"}}"#,
            ),
            (
                'P',
                429,
                r#"{"error":{"message":"Rate limit reached for gpt-x on tokens per day (TPD): Limit 1000000, Used 999000, Requested 1500. Please try again in 43.2s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"message":"Rate limit reached for images per minute in organization org-x. Limit: 5/1min. Current: 6/1min.","type":"requests","code":"rate_limit_exceeded"}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"message":"Enqueued token limit reached for m in organization o. Limit: 90,000 enqueued tokens. Please try again once some in_progress batches have been completed.","type":"x","code":"token_limit_exceeded"}}"#,
            ),
            ('C', 409, r#"{"error":{"message":"Conflict","type":"invalid_request_error","code":null}}"#),
            (
                'C',
                500,
                r#"{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#,
            ),
            ('C', 504, "<html>504 Gateway Time-out</html>"),
            ('P', 413, "<html>413 Request Entity Too Large</html>"),
            ('P', 415, r#"{"error":{"message":"Unsupported Content-Type"}}"#),
            (
                'P',
                200,
                r#"{"id":"r","object":"response","status":"failed","error":{"code":"data_residency_mismatch","message":"x"}}"#,
            ),
            (
                'P',
                200,
                r#"{"id":"r","object":"response","status":"failed","error":{"code":"invalid_prompt","message":"x"}}"#,
            ),
            (
                'P',
                200,
                r#"{"id":"r","object":"response","status":"failed","error":{"code":"image_file_not_found","message":"x"}}"#,
            ),
            (
                'C',
                200,
                r#"{"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"x"}}"#,
            ),
            (
                'R',
                200,
                r#"{"type":"error","code":"rate_limit_exceeded","message":"x","param":null,"sequence_number":1}"#,
            ),
            (
                'P',
                200,
                r#"{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"x"},"sequence_number":2}"#,
            ),
            (
                'C',
                200,
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_is_overloaded","message":"x"}}}"#,
            ),
            (
                '-',
                200,
                r#"{"id":"r","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"message","content":[{"type":"output_text","text":"error 429"}]}]}"#,
            ),
            (
                '-',
                200,
                r#"{"id":"r","object":"response","status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[]}"#,
            ),
        ],
    );
}

#[test]
fn azure_is_read_right() {
    all(
        "example.openai.azure.com",
        &[
            (
                'R',
                429,
                r#"{"error":{"code":"RateLimitReached","message":"Your requests to m have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 2 seconds."}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"code":"NoCapacity","message":"The service is temporarily unable to process your request."}}"#,
            ),
            ('C', 408, r#"{"error":{"code":"Timeout","message":"The operation was timeout."}}"#),
            (
                'C',
                500,
                r#"{"error":{"code":"InternalServerError","message":"Backend returned unexpected response."}}"#,
            ),
            ('P', 429, r#"{"error":{"code":"insufficient_quota","message":"x"}}"#),
            (
                'P',
                400,
                r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model."}}"#,
            ),
            (
                'P',
                400,
                r#"{"code":"content_filter","message":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}"#,
            ),
            ('-', 200, r#"{"choices":[{"finish_reason":"content_filter","message":{"content":"half"}}]}"#),
        ],
    );
}

#[test]
fn anthropic_is_read_right() {
    all(
        "api.anthropic.com",
        &[
            ('C', 409, r#"{"type":"error","error":{"type":"conflict_error","message":"x"}}"#),
            (
                'R',
                429,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute."}}"#,
            ),
            (
                'R',
                429,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your per-minute rate limit"}}"#,
            ),
            (
                'P',
                429,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your daily rate limit"}}"#,
            ),
            ('P', 403, r#"{"type":"error","error":{"type":"forbidden","message":"Request not allowed"}}"#),
            (
                'P',
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."}}"#,
            ),
            (
                'C',
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"The request body is not valid JSON: unexpected end of data: line 1 column 18030593 (char 18030592)"}}"#,
            ),
            (
                'P',
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"The request body is not valid JSON: no low surrogate in string: line 1 column 3"}}"#,
            ),
            ('P', 413, "<html>413</html>"),
            ('C', 200, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            (
                'C',
                200,
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"Internal server error\"}}\n\n",
            ),
            ('P', 200, r#"{"type":"error","error":{"type":"authentication_error","message":"x"}}"#),
            (
                '-',
                200,
                r#"{"type":"message","content":[{"type":"text","text":"{\"type\": \"error\"}"}],"stop_reason":"end_turn"}"#,
            ),
            ('P', 200, r#"{"type":"message","content":[],"stop_reason":"refusal"}"#),
        ],
    );
}

#[test]
fn gemini_and_vertex_are_read_right() {
    all(
        "generativelanguage.googleapis.com",
        &[
            (
                'P',
                400,
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
            ),
            (
                'P',
                400,
                r#"{"error":{"code":400,"message":"Gemini API free tier is not available in your country.","status":"FAILED_PRECONDITION"}}"#,
            ),
            ('P', 404, r#"{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}"#),
            (
                'P',
                429,
                r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: m, limit: 0, model: x\nPlease retry in 20.1s.","status":"RESOURCE_EXHAUSTED"}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"NaNs"}]}}"#,
            ),
            (
                'P',
                429,
                r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED"}]}}"#,
            ),
            ('P', 409, r#"{"error":{"code":409,"message":"x","status":"ALREADY_EXISTS"}}"#),
            ('P', 409, r#"{"error":{"code":"already_exists","message":"x"}}"#),
            ('P', 501, r#"{"error":{"code":501,"message":"x","status":"UNIMPLEMENTED"}}"#),
            ('C', 500, r#"{"error":{"code":"api_error","message":"x"}}"#),
            ('C', 503, r#"{"error":{"code":"service_unavailable","message":"x"}}"#),
            ('P', 400, r#"{"error":{"code":"invalid_request","message":"The value 'x' is not supported."}}"#),
            ('P', 200, r#"{"candidates":[{"finishReason":"SAFETY"}]}"#),
            ('P', 200, r#"{"candidates":[{"finishReason":"PROHIBITED_CONTENT","content":{}}]}"#),
            (
                '-',
                200,
                r#"{"candidates":[{"finishReason":"MAX_TOKENS","content":{"parts":[{"text":"a"}]}}]}"#,
            ),
            (
                'C',
                200,
                r#"[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#,
            ),
            (
                'R',
                200,
                "data: {\"error\": {\"code\": 429, \"message\": \"Resource exhausted.\", \"status\": \"RESOURCE_EXHAUSTED\"}}\n\n",
            ),
            ('P', 200, r#"{"event_type":"error","error":{"code":"quota_exceeded","message":"x"}}"#),
            ('C', 200, r#"{"event_type":"error","error":{"code":"deadline_exceeded","message":"x"}}"#),
        ],
    );
    all(
        "us-central1-aiplatform.googleapis.com",
        &[
            (
                'R',
                429,
                r#"{"error":{"code":429,"message":"Too many requests. Exceeded the Provisioned Throughput.","status":"RESOURCE_EXHAUSTED"}}"#,
            ),
            (
                'P',
                403,
                r#"{"error":{"code":403,"message":"Permission denied on resource project x.","status":"PERMISSION_DENIED"}}"#,
            ),
            (
                'P',
                403,
                r#"{"error":{"code":403,"message":"This API method requires billing to be enabled.","status":"PERMISSION_DENIED","details":[{"reason":"BILLING_DISABLED"}]}}"#,
            ),
            ('R', 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#),
            ('P', 404, "<html>404. That's an error.</html>"),
        ],
    );
}

#[test]
fn bedrock_is_read_right() {
    let rows: &[(char, u16, &str, &str)] = &[
        ('P', 400, "ValidationException", r#"{"message":"Input is too long for requested model."}"#),
        (
            'P',
            403,
            "ExpiredTokenException",
            r#"{"message":"The security token included in the request is expired"}"#,
        ),
        ('P', 400, "IncompleteSignature", r#"{"message":"x"}"#),
        ('P', 404, "ResourceNotFoundException", r#"{"message":"x"}"#),
        ('C', 408, "ModelTimeoutException", r#"{"message":"x"}"#),
        (
            'C',
            424,
            "ModelStreamErrorException",
            r#"{"message":"x","originalStatusCode":500,"originalMessage":"y"}"#,
        ),
        ('C', 424, "ModelErrorException", r#"{"message":"x","originalStatusCode":500}"#),
        ('C', 424, "ModelErrorException", r#"{"message":"x"}"#),
        (
            'R',
            429,
            "ModelNotReadyException",
            r#"{"message":"Model is not ready for inference. Please wait and try again."}"#,
        ),
        ('R', 400, "ThrottlingException", r#"{"message":"Rate exceeded"}"#),
        (
            'C',
            500,
            "InternalServerException",
            r#"{"message":"The system encountered an unexpected error. Try your request again."}"#,
        ),
        (
            'C',
            503,
            "ServiceUnavailableException",
            r#"{"message":"Too many connections, please wait before trying again."}"#,
        ),
        (
            'P',
            403,
            "AccessDeniedException",
            r#"{"message":"INVALID_PAYMENT_INSTRUMENT: A valid payment instrument must be provided."}"#,
        ),
    ];
    for (expected, status, kind, body) in rows {
        let name = format!("{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/");
        let failure =
            judge(*status, "bedrock-runtime.us-east-1.amazonaws.com", &[("x-amzn-ErrorType", &name)], body);
        assert_eq!(letter(failure.as_ref()), *expected, "{status} {kind} {body} {failure:?}");
        assert_eq!(failure.and_then(|f| f.provider_code).as_deref(), Some(*kind));
    }
    for (expected, name) in [
        ('R', "throttlingException"),
        ('C', "internalServerException"),
        ('C', "modelTimeoutException"),
        ('P', "validationException"),
    ] {
        let body = format!("{{\"{name}\": {{\"message\": \"Check your request and retry the request.\"}}}}");
        let stream = [("content-type", "application/vnd.amazon.eventstream"), (":exception-type", name)];
        assert_eq!(letter(judge(200, "", &stream, &body).as_ref()), expected, "{name}");
        assert_eq!(letter(judge(200, "", &[], &body).as_ref()), expected, "{name}");
    }
}

#[test]
fn mistral_and_cohere_are_read_right() {
    all(
        "api.mistral.ai",
        &[
            (
                'R',
                429,
                r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#,
            ),
            ('P', 403, r#"{"object":"error","message":"Forbidden","type":"x","param":null,"code":null}"#),
            (
                'C',
                500,
                r#"{"object":"error","message":"Internal server error","type":"server_error","code":"1000"}"#,
            ),
            ('P', 429, r#"{"object":"error","message":"Monthly quota exceeded","type":"rate_limit_error"}"#),
            ('P', 200, r#"{"object":"error","message":"bad","type":"invalid_request_error"}"#),
        ],
    );
    all(
        "api.cohere.com",
        &[
            ('P', 401, r#"{"message":"invalid api token"}"#),
            (
                'P',
                400,
                r#"{"message":"invalid request: too many tokens: the total number of tokens in the prompt exceeds the limit of 4081"}"#,
            ),
            ('P', 404, r#"{"message":"model 'x' not found"}"#),
            (
                'P',
                429,
                r#"{"message":"You are using a Trial key, which is limited to 1000 API calls / month. You can continue to use the Trial key for free."}"#,
            ),
            ('R', 429, r#"{"message":"too many requests"}"#),
            ('C', 499, r#"{"message":"request cancelled"}"#),
            ('P', 501, r#"{"message":"not implemented"}"#),
            ('C', 503, r#"{"message":"service unavailable"}"#),
            (
                'C',
                200,
                r#"{"type":"message-end","delta":{"error":"generation failed","finish_reason":"ERROR"}}"#,
            ),
            (
                'C',
                200,
                r#"{"event_type":"stream-end","is_finished":true,"finish_reason":"ERROR","response":{"text":""}}"#,
            ),
        ],
    );
}

#[test]
fn groq_and_openrouter_are_read_right() {
    all(
        "api.groq.com",
        &[
            ('P', 403, r#"{"error":{"message":"Forbidden"}}"#),
            ('C', 499, r#"{"error":{"message":"Request Cancelled"}}"#),
            ('C', 498, ""),
            ('P', 422, r#"{"error":{"message":"Unprocessable","type":"invalid_request_error"}}"#),
            (
                'P',
                400,
                r#"{"error":{"message":"x","type":"invalid_request_error","code":"spend_limit_reached"}}"#,
            ),
            ('C', 502, ""),
            (
                'C',
                200,
                r#"{"choices":[{"delta":{},"finish_reason":null}],"x_groq":{"id":"r","error":"stream stopped early"}}"#,
            ),
        ],
    );
    all(
        "openrouter.ai",
        &[
            (
                'R',
                402,
                r#"{"error":{"code":402,"message":"x","metadata":{"error_type":"in_flight_budget_exhausted","limit_source":"openrouter_in_flight_budget"}}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"message":"Rate limit exceeded: free-models-per-min. ","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1796040030000"}}}}"#,
            ),
            ('P', 200, r#"{"error":{"message":"Rate limit exceeded: free-models-per-day","code":429}}"#),
            ('P', 404, r#"{"error":{"message":"No endpoints found for x.","code":404}}"#),
            (
                'C',
                529,
                r#"{"error":{"message":"Provider overloaded","code":529,"metadata":{"error_type":"provider_overloaded"}}}"#,
            ),
            (
                'P',
                502,
                r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"code\":400,\"message\":\"Invalid schema\",\"status\":\"INVALID_ARGUMENT\"}}"}}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"Rate limit reached. Please try again in 3s\",\"type\":\"tokens\"}}","provider_name":"P"}}}"#,
            ),
            (
                'C',
                200,
                r#"{"id":"g","choices":[{"index":0,"finish_reason":"error","message":{"content":""},"error":{"code":502,"message":"x"}}]}"#,
            ),
            (
                'P',
                200,
                "data: {\"error\": {\"message\": \"Error code: 400 - {'error': {'message': 'The response was filtered', 'code': 'content_filter'}}\"}}\n\n",
            ),
            (
                'C',
                200,
                ": OPENROUTER PROCESSING\n\ndata: {\"choices\": [], \"error\": {\"code\": 502, \"message\": \"limit reached (33/32)\", \"metadata\": {\"error_type\": \"provider_unavailable\"}}}\n\n",
            ),
        ],
    );
}

#[test]
fn the_others_are_read_right() {
    all(
        "api.x.ai",
        &[
            (
                'P',
                400,
                r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***."}"#,
            ),
            (
                'R',
                429,
                r#"{"code":"Some resource has been exhausted","error":"Too many requests for team x and model y. Your team's current requests per minute limit is 60."}"#,
            ),
            ('C', 503, r#"{"code":"The service is currently unavailable","error":"x"}"#),
            ('P', 422, r#"{"error":"Failed to deserialize"}"#),
        ],
    );
    all(
        "api.together.xyz",
        &[
            (
                'P',
                403,
                r#"{"error":{"message":"Input token count + max_tokens is above the model context length"}}"#,
            ),
            ('C', 524, ""),
            ('C', 529, ""),
        ],
    );
    all(
        "api.fireworks.ai",
        &[
            ('P', 400, r#"{"fault":{"faultstring":"x","detail":{"errorcode":"y"}}}"#),
            ('P', 412, ""),
            ('R', 429, ""),
        ],
    );
    all(
        "api.cloudflare.com",
        &[
            (
                'P',
                429,
                r#"{"success":false,"errors":[{"code":3036,"message":"You have used up your daily free allocation of 10,000 neurons"}],"result":null}"#,
            ),
            (
                'R',
                429,
                r#"{"success":false,"errors":[{"code":3040,"message":"Capacity temporarily exceeded, please try again."}]}"#,
            ),
            ('P', 400, r#"{"success":false,"errors":[{"code":5007,"message":"No such model"}]}"#),
            ('P', 403, r#"{"success":false,"errors":[{"code":3041,"message":"Not allowed"}]}"#),
            ('P', 401, r#"{"success":false,"errors":[{"code":2009,"message":"Unauthorized"}]}"#),
            ('-', 200, r#"{"success":true,"errors":[],"result":{"response":"hi"},"messages":[]}"#),
        ],
    );
    all(
        "api.cerebras.ai",
        &[
            (
                'P',
                429,
                r#"{"message":"Tokens per day limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}"#,
            ),
            (
                'R',
                429,
                r#"{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}"#,
            ),
            (
                'P',
                401,
                r#"{"message":"Wrong API Key","type":"invalid_request_error","param":"api_key","code":"wrong_api_key"}"#,
            ),
        ],
    );
    all(
        "dashscope-intl.aliyuncs.com",
        &[
            (
                'R',
                429,
                r#"{"code":"Throttling","message":"Requests throttling triggered.","request_id":"r"}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"message":"You have exceeded your current request limit","type":"limit_requests","code":"limit_requests"}}"#,
            ),
            (
                'P',
                429,
                r#"{"code":"PrepaidBillOverdue","message":"The prepaid bill is overdue.","request_id":"r"}"#,
            ),
            ('P', 429, r#"{"code":"CommodityNotPurchased","message":"x","request_id":"r"}"#),
            ('P', 403, r#"{"code":"Model.AccessDenied","message":"x","request_id":"r"}"#),
            (
                'P',
                400,
                r#"{"error":{"message":"x","type":"data_inspection_failed","code":"data_inspection_failed"}}"#,
            ),
            ('C', 503, r#"{"code":"ModelServingError","message":"x","request_id":"r"}"#),
            ('R', 200, r#"{"code":"Throttling.RateQuota","message":"x","request_id":"r"}"#),
        ],
    );
    all(
        "api.moonshot.ai",
        &[
            (
                'P',
                429,
                r#"{"error":{"message":"Your account org-x is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}"#,
            ),
            (
                'P',
                401,
                r#"{"error":{"message":"Invalid Authentication","type":"invalid_authentication_error"}}"#,
            ),
            (
                'P',
                400,
                r#"{"error":{"message":"The request was rejected because it was considered high risk","type":"content_filter"}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"message":"Your account reached max request (RPM): 3, please try again after 1 seconds","type":"rate_limit_reached_error"}}"#,
            ),
        ],
    );
    all(
        "api.z.ai",
        &[
            ('P', 429, r#"{"error":{"code":"1304","message":"Daily call limit for this API reached"}}"#),
            ('R', 429, r#"{"error":{"code":"1303","message":"API call frequency too high"}}"#),
            ('R', 429, r#"{"error":{"code":"1305","message":"x"}}"#),
            (
                'P',
                429,
                r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-12-05 14:00:00"}}"#,
            ),
            ('P', 400, r#"{"error":{"code":"1301","message":"x"}}"#),
            ('P', 401, r#"{"error":{"code":"1001","message":"x"}}"#),
        ],
    );
    all(
        "",
        &[
            ('R', 429, r#"{"error":"Model is overloaded","error_type":"overloaded"}"#),
            (
                'P',
                422,
                r#"{"error":"Input validation error: `inputs` must have less than 1024 tokens","error_type":"validation"}"#,
            ),
            ('C', 503, r#"{"error":"Model x is currently loading","estimated_time":20.0}"#),
            ('C', 200, r#"{"error":{"message":"Incomplete generation stream","http_status_code":422}}"#),
            (
                'P',
                402,
                r#"{"error":"You have exceeded your monthly included credits for Inference Providers."}"#,
            ),
            ('P', 501, r#"{"error":{"message":"x","type":"NotImplementedError","param":null,"code":501}}"#),
            ('C', 500, r#"{"error":{"message":"x","type":"InternalServerError","param":null,"code":500}}"#),
            ('P', 401, r#"{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}"#),
            (
                'C',
                503,
                r#"{"detail":"{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}"}"#,
            ),
            ('C', 503, r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#),
            (
                'C',
                200,
                "{\"model\":\"m\",\"response\":\"a\",\"done\":false}\n{\"error\":\"an error was encountered while running the model\"}\n",
            ),
            (
                '-',
                200,
                "{\"model\":\"m\",\"response\":\"a\",\"done\":false}\n{\"model\":\"m\",\"done\":true}\n",
            ),
            (
                'P',
                429,
                r#"{"error":"you (user) have reached your session usage limit, upgrade for higher limits"}"#,
            ),
            ('P', 404, r#"{"error":{"message":"model 'x' not found","type":"not_found_error"}}"#),
            (
                'P',
                413,
                r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for m model. Max size: 8000 tokens."}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"code":"RateLimitReached","message":"Rate limit of 15 per 60s exceeded for UserByModelByMinute. Please wait 10 seconds before retrying."}}"#,
            ),
            (
                'R',
                429,
                r#"{"error":{"message":"litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached for m on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please try again in 6s.","type":"throttling_error","code":"429"}}"#,
            ),
            (
                'P',
                400,
                r#"{"error":{"message":"ExceededBudget: Crossed spend within team","type":"budget_exceeded","code":"400"}}"#,
            ),
            (
                'P',
                400,
                r#"{"error":{"message":"litellm.ContextWindowExceededError: x","type":null,"code":"400"}}"#,
            ),
            ('C', 200, r#"{"error": {"message": "cut \ud83d", "code": 503}, "usage": NaN}"#),
            ('P', 429, r#"{"error":{"code":"monthly_quota_reached","message":"x"}}"#),
            (
                'P',
                429,
                r#"{"error":{"code":"1121","message":"Terminal user has violation, account has been locked"}}"#,
            ),
            ('P', 446, r#"{"error":{"message":"guardrail checks failed","type":"hooks_failed"}}"#),
            (
                '-',
                246,
                r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"hook_results":{}}"#,
            ),
            ('P', 402, r#"{"error":{"message":"Insufficient funds","type":"insufficient_funds"}}"#),
            ('C', 503, r#"{"error_code":"TEMPORARILY_UNAVAILABLE","message":"x"}"#),
            ('P', 403, r#"{"error_code":"PERMISSION_DENIED","message":"x"}"#),
            (
                'P',
                422,
                r#"{"detail":[{"loc":["body"],"msg":"field required","type":"value_error.missing"}]}"#,
            ),
            ('P', 429, r#"{"detail":"You have exceeded your monthly quota."}"#),
            ('R', 429, "error code: 1015"),
            (
                'R',
                403,
                r#"{"error":{"message":"You have exceeded a secondary rate limit","errors":[{"reason":"rateLimitExceeded"}]}}"#,
            ),
            ('C', 500, "429 Too Many Reasons"),
            ('P', 400, "upstream said 503"),
            ('P', 301, ""),
            ('P', 304, ""),
            ('P', 418, ""),
            ('P', 407, ""),
            ('P', 505, ""),
            ('P', 526, ""),
            ('C', 425, ""),
            ('C', 424, r#"{"error":"Request failed during generation: x","error_type":"generation"}"#),
        ],
    );
    for status in [500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 525, 527, 529, 530, 598] {
        assert_eq!(letter(judge(status, "", &[], "").as_ref()), 'C', "{status}");
    }
}

#[test]
fn bodies_of_a_2xx_that_are_no_answer_are_told_apart() {
    let rows: &[(Reason, &str, &str)] = &[
        (Reason::EmptyBody, "application/json", ""),
        (Reason::EmptyBody, "application/json", " \n"),
        (Reason::HtmlPage, "text/html", "<!doctype html><html></html>"),
        (Reason::HtmlPage, "application/json", "<html><body>x</body></html>"),
        (Reason::Truncated, "application/json", "{\"choices\": [{\"message\": {\"content\": \"hel"),
        (Reason::NotJson, "text/plain", "upstream connect error"),
    ];
    for (reason, kind, body) in rows {
        let failure = judge(200, "", &[("content-type", kind)], body);
        assert_eq!(failure.map(|f| f.reason), Some(*reason), "{body}");
    }
    for body in ["NaN", "12", "\"text\"", "null", "{\"a\": NaN}", "\u{feff}{\"a\": 1}", "[]", "{}"] {
        assert_eq!(judge(200, "", &[], body), None, "{body}");
    }
    assert_eq!(judge(200, "", &[("content-type", "audio/mpeg")], "\u{1}\u{2}"), None);
}

#[test]
fn x_should_retry_overrules_the_status_but_no_proof() {
    let told = |value, status, body| letter(judge(status, "", &[("x-should-retry", value)], body).as_ref());
    assert_eq!(told("false", 500, ""), 'P');
    assert_eq!(told("False", 429, ""), 'P');
    assert_eq!(told("true", 400, ""), 'C');
    assert_eq!(told("maybe", 500, ""), 'C');
    assert_eq!(told("true", 429, r#"{"error":{"code":"insufficient_quota"}}"#), 'P');
    assert_eq!(told("true", 413, ""), 'P');
}

#[test]
fn the_callers_table_replaces_ours_and_body_rules_still_apply() {
    let only: StatusSet = [429, 500, 503, 504, 404].into_iter().collect();
    let judge = |status: u16, body: &str| {
        let answer =
            Answer { status, headers: &[], body: body.as_bytes(), url: None, now: None, dialect: None };
        letter(classify_with(&answer, Some(&only)).as_ref())
    };
    assert_eq!(judge(503, ""), 'C');
    assert_eq!(judge(404, ""), 'C');
    assert_eq!(judge(408, ""), 'P');
    assert_eq!(judge(502, ""), 'P');
    assert_eq!(judge(429, ""), 'R');
    assert_eq!(judge(429, r#"{"error":{"code":"insufficient_quota"}}"#), 'P');
    assert_eq!(judge(200, "{}"), '-');
}

#[test]
fn the_hint_stays_on_a_failure_that_is_not_retried() {
    let body = r#"{"error":{"message":"Too many tokens per day. Please try again in 9m38.016s."}}"#;
    let failure = judge(429, "", &[], body);
    assert_eq!(failure.as_ref().map(|f| f.kind), Some(Kind::Permanent));
    assert_eq!(failure.and_then(|f| f.hint).map(|h| h.seconds), Some(578.016));
    let regain = r#"{"error":{"message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}"#;
    assert_eq!(judge(400, "", &[], regain).and_then(|f| f.hint).map(|h| h.seconds), Some(43_200.0));
}

#[test]
fn a_request_that_was_turned_away_was_not_billed() {
    for (status, expected) in [(429, Sent::No), (400, Sent::No), (408, Sent::Maybe), (503, Sent::Maybe)] {
        assert_eq!(judge(status, "", &[], "").map(|failure| failure.sent), Some(expected), "{status}");
    }
    assert_eq!(judge(200, "", &[], "{").map(|failure| failure.sent), Some(Sent::Maybe));
}

#[test]
fn a_wait_of_a_day_on_a_429_is_a_quota() {
    let failure = judge(429, "", &[("retry-after", "86400")], "");
    assert_eq!(failure.map(|f| (f.kind, f.reason)), Some((Kind::Permanent, Reason::WaitOfDays)));
    let failure = judge(503, "", &[("retry-after", "86400")], "");
    assert_eq!(failure.map(|f| f.kind), Some(Kind::Call));
}

#[test]
fn every_place_of_a_hint_is_found() {
    let rows: &[(f64, Headers<'_>, &str)] = &[
        (12.0, &[("retry-after-ms", ""), ("retry-after", "12")], ""),
        (0.85, &[("Retry-After-Ms", "850")], ""),
        (20.0, &[], r#"{"error":"loading","estimated_time":20.0}"#),
        (
            30.0,
            &[],
            r#"{"error":{"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1796040030000"}},"code":429,"message":"x"}}"#,
        ),
        (7.0, &[], r#"{"error":{"code":429,"details":[{"retryDelay":"7s"}]}}"#),
        (39.5, &[], r#"{"error":{"details":[{"retryDelay":{"seconds":"39","nanos":500000000}}]}}"#),
        (0.4, &[], r#"{"error":{"details":[{"metadata":{"quotaResetDelay":"400ms"}}]}}"#),
        (55.0, &[("ratelimit", "\"api\";r=0;t=55")], ""),
        (
            9.0,
            &[
                ("anthropic-ratelimit-tokens-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "2026-11-30T12:00:09Z"),
            ],
            "",
        ),
        (44.0, &[], r#"litellm.RateLimitError: b'{\"details\": [{\"retryDelay\": \"44s\"}]}'"#),
        (5631.0, &[], r#"{"error":{"message":"Please wait 5631 seconds before retrying."}}"#),
        (16.0 * 86400.0, &[], r#"{"error":{"message":"Resets in 16 days."}}"#),
    ];
    for (seconds, headers, body) in rows {
        let hint = judge(429, "", headers, body).and_then(|f| f.hint);
        assert!(
            hint.as_ref().is_some_and(|h| (h.seconds - seconds).abs() < 1e-6),
            "{headers:?} {body} {hint:?}"
        );
    }
}

#[test]
fn the_dialect_can_be_given_or_found() {
    let body = br#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota."}}"#;
    let judged = |dialect| {
        let answer = Answer { status: 429, headers: &[], body, url: None, now: None, dialect };
        classify(&answer).map(|failure| (failure.kind, failure.dialect))
    };
    assert_eq!(judged(Some(Dialect::Alibaba)), Some((Kind::RateLimited, Dialect::Alibaba)));
    assert_eq!(judged(None), Some((Kind::Permanent, Dialect::Generic)));
}
