"""What vLLM 0.32's client and engine write, cut to what is read; figures are the manual's where it has them."""

from windlass.bench.serving.counters import Counted
from windlass.bench.serving.load import Load, Point
from windlass.bench.serving.record import Record

LOAD = Load(server="http://127.0.0.1:8501", tokenizer="/models/llama", model="llama", name="20241220_llama")
RESULT: dict[str, object] = {
    "date": "20241220-101112",
    "backend": "openai-chat",
    "request_rate": "inf",
    "max_concurrency": 4,
    "duration": 9.5,
    "completed": 4,
    "failed": 0,
    "total_input_tokens": 1900,
    "total_output_tokens": 1600,
    "request_throughput": 0.42,
    "request_goodput": None,
    "output_throughput": 167.08,
    "total_token_throughput": 373.84,
    "mean_e2el_ms": 2390.31,
    "median_e2el_ms": 2069.78,
    "p99_e2el_ms": 2500.5,
    "mean_ttft_ms": 656.38,
    "median_ttft_ms": 41.38,
    "p99_ttft_ms": 2427.64,
    "mean_tpot_ms": 4.35,
    "median_tpot_ms": 4.51,
    "p99_tpot_ms": 5.5,
    "mean_itl_ms": 12.43,
    "median_itl_ms": 12.38,
    "p99_itl_ms": 13.27,
}
COUNTED = Counted(
    prompt_tokens=1900,
    generation_tokens=1600,
    prefix_queries=1900,
    prefix_hits=19,
    drafts=400,
    draft_tokens=2000,
    accepted_tokens=1200,
    prefix_cache=True,
    offload=False,
    lookahead=True,
)
METRICS = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="llama"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="llama"} 500.0
vllm:generation_tokens_total{engine="0",model_name="llama"} 1.5e+03
vllm:prefix_cache_queries_total{engine="0",model_name="a \\"b\\" }"} 1500.0
vllm:prefix_cache_hits_total{engine="0",model_name="llama"} 0.0
vllm:prefix_cache_hits_created{engine="0",model_name="llama"} 1.7e+09
vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",kv_offloading_size="None"} 1.0
windlass_lookahead_num_iters_total{engine="0"} 7.0
"""


def record(counted: Counted | None = COUNTED, load: Load = LOAD, **changed: object) -> Record:
    """A run of four requests at once, with fields changed."""
    return Record(load, Point("01-concurrency-4", 0, 4), RESULT | changed, counted)
