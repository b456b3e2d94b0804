"""Error texts as providers sent them."""

import json
import time

import pytest

from proxy.dialects.base import Refusal
from proxy.dialects.refusals import refusal_of

# provider, status, body or text, the window that the text names
OVERFLOWS = [
    # OpenAI
    ("OpenAI Responses", 400, {"error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model. Please adjust your input and try again."}}, None),
    ("OpenAI chat", 400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.", 128000),
    ("OpenAI, configured", 400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.", 272000),
    ("OpenAI, in a stream", 200, {"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}}, None),
    ("OpenAI Responses, failed in a stream", 200, {"type": "response.failed", "response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}}}, None),
    # Anthropic
    ("Anthropic", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 3333404 tokens > 200000 maximum"}}, 200000),
    ("Anthropic, with the answer", 400, "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again", 200000),
    ("Anthropic, bytes", 413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, None),
    # Google
    ("Gemini", 400, {"error": {"code": 400, "message": "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}, 1048576),
    ("Vertex", 400, "Unable to submit request because the input token count is 135538 but model only supports up to 32768. Reduce the input token count and try again.", 32768),
    ("Gemini, as an array", 400, [{"error": {"code": 400, "message": "The input token count exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}], 1048576),
    # Bedrock
    ("Bedrock", 400, "Input is too long for requested model.", None),
    ("Bedrock, wrapped", 400, {"message": "The model returned the following errors: Input is too long for requested model."}, None),
    ("Bedrock Nova", 400, "Input Tokens Exceeded: Number of input tokens exceeds maximum length.", None),
    # OpenRouter and what stands behind it
    ("OpenRouter", 400, {"error": {"code": 400, "message": "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens (2500021 of text input). Please reduce the length of either one, or use the context-compression plugin"}}, 200000),
    ("OpenRouter, with pictures", 400, "This endpoint's maximum context length is 200000 tokens. However, you requested about 250000 tokens (240000 of text input, 10000 of image input). Please reduce the length of either one", 200000),
    ("OpenRouter, wrapped", 400, {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": '{"message":"prompt is too long: 210000 tokens > 200000 maximum"}'}}}, 200000),
    ("OpenRouter, in a stream", 200, {"error": {"code": 400, "message": "Token limit reached"}}, None),
    ("SiliconFlow", 400, {"code": 20015, "message": "number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.", "data": None}, 202752),
    ("Z.ai, in words", 400, {"error": {"code": "1210", "message": "tokens in request more than max tokens allowed"}}, None),
    ("Z.ai, in fewer words", 400, {"error": {"code": 400, "message": "Prompt too long"}}, None),
    ("Zhipu", 400, {"error": {"message": "Prompt 超长"}}, None),
    ("Chinese houses", 400, "请求的上下文长度超过模型限制", None),
    ("Gemini, bytes", 400, {"error": {"code": 400, "message": "Request payload size exceeds the limit: 20971520 bytes.", "status": "INVALID_ARGUMENT"}}, None),
    ("Moonshot, bytes", 400, "total message size 10176584 exceeds limit 2097152", None),
    ("Poolside", 400, "Request exceeds the maximum allowed input length of 131072 tokens", 131072),
    ("DeepSeek", 400, "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens (1250025 in the messages, 0 in the completion). Please reduce the length of the messages or completion.", 1048565),
    ("Ollama cloud", 400, "prompt too long; exceeded max context length by 1119046 tokens (ref: abc)", None),
    ("Perplexity", 400, {"error": {"type": "too_many_prompt_tokens", "message": "The total length of all messages is too long."}}, None),
    ("Cohere", 400, {"error_type": "TOO_MANY_TOKENS", "message": "too many tokens: size limit exceeded by 25836 tokens."}, None),
    ("Groq", 400, {"error": {"code": "context_length_exceeded", "message": "Please reduce the length of the messages or completion."}}, None),
    ("xAI", 400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}, 131072),
    ("Mistral", 400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32768),
    ("Cerebras", 400, "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192", 8192),
    ("Cerebras, speechless", 400, b"", None),
    ("Cerebras, speechless 413", 413, b"  ", None),
    ("Together", 400, "The input (85050 tokens) is longer than the model's context length (32768 tokens).", 32768),
    ("TGI", 422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`", 4096),
    ("Fireworks", 400, "The prompt is too long: 140000, model maximum context length: 131072", 131072),
    # Servers at home
    ("vLLM", 400, {"object": "error", "message": "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens.", "type": "BadRequestError", "param": "input_tokens"}, 262144),
    ("vLLM, decoder", 400, "The decoder prompt (length 40000) is longer than the maximum model length of 32768.", 32768),
    ("llama.cpp", 400, {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 9001, "n_ctx": 8192}}, 8192),
    ("llama.cpp, behind a 200", 200, {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it"}}, None),
    ("llama.cpp, older", 500, "the request exceeds the available context size. try increasing the context size or enable context shift", None),
    ("ds4", 400, "Prompt has 92,345 tokens, but the configured context size is 28,192 tokens", 28192),
    ("Lucebox", 400, "prompt + max_tokens exceeds context window", None),
    ("LM Studio", 400, "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens", 4096),
    ("LM Studio, in a stream", 200, {"error": {"message": "The number of tokens to keep from the initial prompt is greater than the context length"}}, None),
    ("SGLang", 400, {"object": "error", "message": "The input (85050 tokens) is longer than the model's context length (32768 tokens).", "code": 400}, 32768),
    ("LM Studio, other", 500, "The number of tokens to keep from the initial prompt is greater than the context length", None),
    # Plans and houses
    ("Copilot", 400, {"error": {"code": "model_max_prompt_tokens_exceeded", "message": "prompt token count of 140000 exceeds the limit of 128000"}}, 128000),
    ("Moonshot", 400, "Invalid request: Your request exceeded model token limit: 131072 (requested: 150000)", 131072),
    ("MiniMax", 400, "invalid params, context window exceeds limit (2013)", None),
    ("DashScope", 400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", 129024),
    ("MiniMax, as it stands in its answers", 200, {"base_resp": {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"}}, None),
    ("Z.ai", 400, {"error": {"code": "model_context_window_exceeded", "message": "too long"}}, None),
    ("Z.ai, by number", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, None),
    ("Z.ai, by number alone", 400, {"error": {"code": "1261", "message": "Prompt 超长"}}, None),
    ("Z.ai, a bare number", 400, {"error": {"code": 1261, "message": "Prompt 超长"}}, None),
    # As their issue trackers and sources have them, 2025 and 2026
    ("SGLang, with the answer", 400, "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.", 202752),
    ("SGLang, memory", 400, "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate.", 59862),
    ("vLLM 0.10", 400, "This model's maximum context length is 16384 tokens. However, your request has 18225 input tokens. Please reduce the length of the input messages.", 16384),
    ("vLLM, the answer does not fit", 400, "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is 32768 tokens and your request has 20000 input tokens (16384 > 32768 - 20000).", 32768),
    ("vLLM, below nothing", 400, "max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)", None),
    ("vLLM, engine", 400, "The engine prompt length 227861 exceeds the max_model_len 131072. Please reduce prompt.", 131072),
    ("vLLM 2026", 400, "You passed 4097 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=4097)", 4096),
    ("llama.cpp, passed on", 400, "litellm.BadRequestError: OpenAIException - request (53192 tokens) exceeds the available context size (50176 tokens), try increasing it", 50176),
    ("llama.cpp, while it answers", 500, {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}, None),
    ("LM Studio, truncation", 400, {"error": "Cannot truncate prompt with n_keep (12378) >= n_ctx (4096)"}, 4096),
    ("LM Studio, with numbers", 400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 10247 >= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter prompt."}, 4096),
    ("LM Studio, reached", 400, {"error": "Reached context length of 4096 tokens with model (arch: gpt-oss) that does not currently support mid-generation context overflow."}, 4096),
    ("Cloudflare", 413, {"errors": [{"message": "AiError: The estimated number of input and maximum output tokens (155740) exceeded this model context window limit (128000)", "code": 5021}], "success": False}, 128000),
    ("SiliconFlow", 400, {"code": 20015, "message": "length of prompt_tokens (33000) must be less than max_seq_len (32768).", "data": None}, 32768),
    ("Volcano Ark", 400, {"error": {"code": "InvalidParameter", "message": "Total tokens of image and text exceed max message tokens. Request id: 0217", "type": "BadRequest"}}, None),
    ("Bedrock Titan", 400, "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279", 8192),
    ("TGI, input", 422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 2600", 1024),
    ("TensorRT", 400, "The sum of prompt length (8193.0) and query length (0) should not exceed max_num_tokens (8192)", 8192),
    ("Cohere, prompt", 400, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt", 4081),
    ("LiteLLM", 400, {"error": {"message": "litellm.ContextWindowExceededError: Context Window exceeded for given call. No models have context window large enough for this call."}}, None),
    ("GitHub Models", 413, {"error": {"code": "tokens_limit_reached", "message": "Request body too large for gpt-4o model. Max size: 8000 tokens.", "details": "Request body too large for gpt-4o model. Max size: 8000 tokens."}}, 8000),
    ("watsonx.ai", 400, {"errors": [{"code": "invalid_input_argument", "message": "Invalid input argument for Model 'x/y': the number of input tokens 4098 cannot exceed the total tokens limit 4096 for this model"}], "status_code": 400}, 4096),
    ("DeepInfra, behind OpenRouter", 400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "Requested input length 39818 exceeds maximum input length 32767", "provider_name": "DeepInfra"}}}, 32767),
    ("TensorRT-LLM", 500, "Prompt length (5000) exceeds maximum input length (4096). Set log level to info and check the output", 4096),
    ("a load balancer", 413, b"<html><head><title>413 Request Entity Too Large</title></head><body><center>nginx</center></body></html>", None),
    ("with commas", 400, "This model's maximum context length is 131,072 tokens. However, your messages resulted in 204,308 tokens.", 131072),
    ("rounded", 400, "The maximum context length is 128k tokens, you requested 256k tokens", None),
    ("Z.ai, in a stream", 200, {"error": {"code": "1261", "message": "Prompt 超长"}}, None),
]  # fmt: skip

# What speaks of tokens, length or size and is something else.
FALSE_FRIENDS = [
    ("OpenAI rate", 429, "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 40000."),
    ("Groq rate as 413", 413, {"error": {"message": "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.", "type": "tokens", "code": "rate_limit_exceeded"}}),
    ("Bedrock throttling", 400, "ThrottlingException: Too many tokens, please wait before trying again."),
    ("Gemini free tier", 429, {"error": {"code": 429, "message": "You exceeded your current quota: input token count", "status": "RESOURCE_EXHAUSTED"}}),
    ("OpenAI, output", 400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
    ("Anthropic, output", 400, "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"),
    ("OpenAI, field", 400, {"error": {"code": "string_above_max_length", "message": "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 70 instead."}}),
    ("pictures", 400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"),
    ("many pictures", 400, "messages.3.content: too many images: 21 exceeds the limit of 20"),
    ("picture's sides", 400, "messages.3.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"),
    ("Cerebras, an hour's tokens in a stream", 200, "Tokens per hour limit exceeded - token limit exceeded"),
    ("tools", 400, "Number of tools 150 exceeds the limit of 128"),
    ("stop words", 400, "stop: 5 sequences exceeds the limit of 4"),
    ("output, elsewhere", 400, {"error": {"code": "1210", "message": "max_tokens exceeds the limit of 98304"}}),
    ("TGI, output", 422, "Input validation error: `max_new_tokens` must be strictly positive"),
    ("Bedrock, output", 400, "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."),
    ("DashScope, output", 400, "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"),
    ("pages", 400, "messages.0.content.0.pdf.source.base64.data: A maximum of 100 PDF pages may be provided."),
    ("pairing", 400, "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: call_1."),
    ("effort", 400, "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium."),
    ("key", 401, {"error": {"message": "invalid x-api-key", "type": "authentication_error"}}),
    ("an overflow's text with another status", 404, "prompt is too long: 3333404 tokens > 200000 maximum"),
    ("overloaded", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ("a page", 502, "<html><body>context length exceeded</body></html>"),
    ("speechless 500", 500, b""),
    ("a parameter", 400, "Unsupported parameter: 'reasoning.effort' is not supported with this model."),
    ("nothing said", 400, {"error": None}),
    ("Z.ai, other numbers", 400, {"error": {"code": "1210", "message": "API 调用参数有误，请检查文档。"}}),
    ("Z.ai, its rates", 429, {"error": {"code": "1302", "message": "您当前使用该 API 的并发数过高"}}),
    ("a number that only looks like it", 400, {"error": {"code": "invalid_value", "message": "1261 is not a valid seed", "param": "1261"}}),
    ("too deep", 400, b"[" * 5000),
]  # fmt: skip

REASONING = [
    ("missing", "The `reasoning_content` in the thinking mode must be passed back to the API."),
    ("missing", "Missing `reasoning_content` field in the assistant message at message index 96"),
    ("missing", "The `content[].thinking` in the thinking mode must be passed back to the API."),
    ("missing", "thinking is enabled but reasoning_content is missing in assistant tool call message at index 4"),
    ("missing", "messages.3.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"),
    ("altered", "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."),
    ("altered", 'messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'),
    ("altered", "messages.1.content.0.thinking.signature: Field required"),
    ("missing", "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly"),
    ("missing", "Unable to submit request because function call `x` in the 5. content block is missing a `thought_signature`."),
    ("altered", "Invalid thought signature"),
    ("altered", "Corrupted thought signature."),
    ("altered", "Unable to submit request because Thought signature is not valid.. Learn more: https://cloud.example/docs"),
    ("altered", "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
    ("missing", "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."),
    ("missing", "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'."),
    ("missing", {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"The `reasoning_content` in the thinking mode must be passed back to the API."}}'}}}),
    ("altered", {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": '{"message":"messages.1.content.0: Invalid `signature` in `thinking` block"}'}}}),
    ("altered", "The encrypted content gAAAAAB could not be verified. Reason: Encrypted content organization_id did not match"),
    ("altered", {"error": {"code": "invalid_encrypted_content", "message": "no"}}),
    ("unwanted", "The reasoning_content is an intermediate result for display purposes only and will not be included in the context for inference. Please remove the reasoning_content from your message to reduce network traffic."),
    ("unwanted", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"),
    ("unwanted", "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning' is unsupported)]"),
    ("unwanted", "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported"),
]  # fmt: skip

OPTIONS = [
    (400, "The 'stream_options' parameter is only allowed when 'stream' is enabled."),
    (400, "property 'stream_options' is unsupported"),
    (400, "Unknown parameter: 'stream_options'."),
    (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}),
]  # fmt: skip


def body_of(said):
    """A text as the most common error body; anything else as it is."""
    if isinstance(said, bytes):
        return said
    return json.dumps({"error": {"message": said, "type": "x"}} if isinstance(said, str) else said).encode()


@pytest.mark.parametrize(
    ("status", "said", "window"), [row[1:] for row in OVERFLOWS], ids=[row[0] for row in OVERFLOWS]
)
def test_an_overflow_is_recognised_with_the_window_that_it_names(status, said, window):
    refusal = refusal_of(status, body_of(said))

    assert refusal is not None
    assert refusal.kind == "overflow"
    assert refusal.window == window


@pytest.mark.parametrize(("status", "said", "window"), [row[1:] for row in OVERFLOWS if isinstance(row[2], str)])
def test_an_overflow_is_recognised_without_json(status, said, window):
    refusal = refusal_of(status, said.encode())

    assert refusal is not None
    assert (refusal.kind, refusal.window) == ("overflow", window)


@pytest.mark.parametrize(("status", "said"), [row[1:] for row in FALSE_FRIENDS], ids=[row[0] for row in FALSE_FRIENDS])
def test_a_false_friend_means_nothing_to_us(status, said):
    assert refusal_of(status, body_of(said)) is None


@pytest.mark.parametrize(("wrong", "said"), REASONING)
def test_refused_reasoning_is_recognised_with_what_is_wrong_about_it(wrong, said):
    refusal = refusal_of(400, body_of(said))

    assert refusal is not None
    assert (refusal.kind, refusal.reasoning, refusal.window) == ("reasoning", wrong, None)


@pytest.mark.parametrize(("status", "said"), OPTIONS)
def test_an_option_that_a_provider_does_not_know_is_recognised(status, said):
    refusal = refusal_of(status, body_of(said))

    assert refusal is not None
    assert refusal.kind == "usage_option"


@pytest.mark.parametrize("status", [400, 422])
def test_a_cache_breakpoint_that_a_provider_does_not_know_is_recognised(status):
    refusal = refusal_of(status, body_of("messages.0.content.0.cache_control: Extra inputs are not permitted"))

    assert refusal is not None
    assert refusal.kind == "cache_option"


@pytest.mark.parametrize(
    "said",
    [
        # Only the numbers, and none of them may be taken for the window.
        "prompt too long; exceeded max context length by 1119046 tokens",
        "Input is too long for requested model: 300000 tokens",
    ],
)
def test_a_number_that_is_not_the_window_is_not_learned(said):
    refusal = refusal_of(400, body_of(said))

    assert refusal is not None
    assert refusal.window is None


def test_a_huge_error_is_read_only_at_its_beginning():
    assert refusal_of(400, b"x" * 1_000_000 + b"prompt is too long") is None


COUNTED = [
    ("This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens.", 204308),
    ("prompt is too long: 3333404 tokens > 200000 maximum", 3333404),
    ("input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000", 199759),
    ("The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).", 1250074),
    (
        "maximum context length is 200000 tokens. However, you requested about 2500021 tokens (2500020 of text input).",
        2500020,
    ),
    (
        "you requested about 284283 tokens (8963 of text input, 13176 of tool input, 1 in the output); maximum context length: 9",
        8963 + 13176,
    ),
    ("number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.", 204703),
    ("Prompt has 92,345 tokens, but the configured context size is 28,192 tokens", 92345),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 537812),
    (
        "This model's maximum context length is 262144 tokens, and your prompt contains at least 134145 input tokens.",
        134145,
    ),
    ("Your request exceeded model token limit: 131072 (requested: 140000)", 140000),
    ("Input is too long for requested model.", None),
    ("the number of input tokens 4098 cannot exceed the total tokens limit 4096 for this model", 4098),
    ("Prompt length (5000) exceeds maximum input length (4096). Set log level to info", 5000),
    ("Requested input length 39818 exceeds maximum input length 32767", 39818),
    ("maximum context length is 131,072 tokens. However, your messages resulted in 204,308 tokens.", 204308),
    (
        "maximum context length of 202752 tokens. You requested a total of 202941 tokens: 170941 tokens from the input messages",
        170941,
    ),
    ("maximum context length is 16384 tokens. However, you requested 122946 tokens in the messages", 122946),
    ("maximum context length is 16384 tokens. However, your request has 18225 input tokens.", 18225),
    ("You passed 4097 input tokens and requested 100. However, the model's context length is only 4096 tokens", 4097),
    ("maximum context length is 8191 tokens, however you requested 10346 tokens (9346 in your prompt; 1000 for", 9346),
    ("request (53192 tokens) exceeds the available context size (50176 tokens)", 53192),
    ("Input length 300000 exceeds the maximum allowed input length of 131072 tokens.", 300000),
    ("The prompt (length 40000) is longer than the maximum model length of 32768", 40000),
    ("The engine prompt length 227861 exceeds the max_model_len 131072", 227861),
    ("length of prompt_tokens (33000) must be less than max_seq_len (32768).", 33000),
    ("Cannot truncate prompt with n_keep (12378) >= n_ctx (4096)", 12378),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`", 5000),
    ("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.", 4292),
]


@pytest.mark.parametrize(("text", "counted"), COUNTED)
def test_an_overflow_tells_how_the_provider_counts(text, counted):
    refusal = refusal_of(400, json.dumps({"error": {"message": text}}).encode())

    assert refusal is not None
    assert refusal.counted == counted


@pytest.mark.parametrize(
    ("said", "over"),
    [
        ("prompt too long; exceeded max context length by 1119046 tokens", 1119046),
        ("max_tokens must be at least 1, got -7584.", 7584),
    ],
)
def test_an_overflow_may_tell_only_by_how_much(said, over):
    refusal = refusal_of(400, body_of(said))

    assert refusal is not None
    assert (refusal.window, refusal.over) == (None, over)


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize(
    ("said", "of_bytes"),
    [
        (
            {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
            True,
        ),
        ({"error": {"message": "Request Entity Too Large", "code": "request_too_large"}}, True),
        ("Request body too large for gpt-4o model. Max size: 10 MB.", True),
        ({"code": 400, "message": "request body too large, must be less than 20MB"}, True),
        ("Request size exceeds the limit of {0}", True),
        ("Request payload size exceeds the limit: 20971520 bytes.", True),
        ("Exceeded limit on max bytes to request body : 6291456", True),
        ("total message size 10176584 exceeds limit 2097152", True),
        ({"error": {"code": "tokens_limit_reached", "message": "Max size: 8000 tokens."}}, False),
        ("prompt is too long: 210000 tokens > 200000 maximum", False),
        (b"", False),
    ],
)
def test_too_many_bytes_are_told_apart_from_too_many_tokens(said, of_bytes, status):
    refusal = refusal_of(status, body_of(said))

    assert refusal is not None
    assert (refusal.kind, refusal.of_bytes) == ("overflow", of_bytes)


def test_whoever_answers_413_means_bytes():
    assert refusal_of(413, b"<html><body><h1>413 Request Entity Too Large</h1></body></html>") == Refusal(
        kind="overflow", of_bytes=True
    )


def test_a_number_too_long_for_a_count_is_none():
    refusal = refusal_of(400, body_of(f"prompt is too long: {'9' * 500} tokens > 200000 maximum"))

    assert refusal is not None
    assert (refusal.kind, refusal.counted, refusal.window) == ("overflow", None, 200_000)


@pytest.mark.parametrize(
    "text", ["input length exceeds ", "input length ", "input token count ", "must be <= 5 ", "max_new_tokens ", "x"]
)
@pytest.mark.parametrize("form", [lambda text: json.dumps({"error": {"message": text}}), lambda text: text])
def test_an_error_that_repeats_what_it_was_sent_is_read_in_no_time(text, form):
    """Within half a minute before, for 8 KB."""
    started = time.process_time()

    assert refusal_of(400, form(text * (60_000 // len(text))).encode()) is None
    assert time.process_time() - started < 0.5


def test_what_a_provider_says_beside_what_it_was_sent_is_read():
    said = {"detail": [{"input": "word " * 20_000, "msg": "prompt is too long: 9 tokens > 8000 maximum"}]}
    refusal = refusal_of(400, json.dumps(said).encode())

    assert refusal is not None
    assert (refusal.kind, refusal.window) == ("overflow", 8000)


@pytest.mark.parametrize(
    "said",
    [
        # llama.cpp and vLLM with the templates of Gemma and Mistral, Bedrock, Perplexity, LM Studio
        "Conversation roles must alternate user/assistant/user/assistant/...",
        'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row',
        "A conversation must alternate between user and assistant roles.",
        "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).",
        "Error rendering prompt with jinja template",
        # Vertex AI, Mistral
        "Please ensure that multiturn requests alternate between user and model.",
        "Unexpected role 'user' after role 'tool'",
    ],
)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_template_that_wants_roles_to_alternate_is_recognised(status, said):
    assert refusal_of(status, json.dumps({"error": {"message": said}}).encode()).kind == "roles"
