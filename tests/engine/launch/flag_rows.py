"""The start command as rows: what is said, and what the engine's own parser must have made of it, or why it is refused.

Data alone. `parse_rows` runs every row through `windlass` and through vLLM in the serving image, `test_flag_rows`
compares. A value is read at a path: `args.` is what vLLM's parser read, `engine.` vLLM's configuration of an engine,
`front.` the guard's settings, `lookahead.` the cache's, `env.` the engine's variables, `plan.` a setting of ours;
`template` is the file of ours whose text vLLM loaded as chat template, `stops` the stop tokens that vLLM found.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

CPU, HERE, LOOKAHEAD = "cpu", Path(__file__).parent, "windlass.engine.lookahead"
L20, L20_2, L20_4, V100, T4 = "1 NVIDIA L20", "2 NVIDIA L20", "4 NVIDIA L20", "1 Tesla V100-SXM2-32GB", "1 Tesla T4"
SMALL, LONG, HUGE = "small", "long", "huge"
"""Models with a context of 2048, 32768 and 131072 tokens; the long one has a vocabulary of 152064."""
GPTQ, FP8, SMOOTH, NAMED, MLLAMA, PLAIN = "gptq", "fp8", "smooth", "named", "mllama", "plain"
"""Quantized, to FP8, with smoothquant's file; with a ti_model_config.json; given up by vLLM; without a template."""


@dataclass(frozen=True)
class Row:
    """One start command."""

    id: str
    line: str = ""
    """Words behind `run`, or a whole command that begins with `vllm` or `python3`."""
    reads: dict[str, object] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    refused: str = ""
    told: str = ""
    """A part of a warning."""
    model: str = SMALL
    machine: str = CPU

    @property
    def name(self) -> str:
        """Id and command, for a person."""
        said = " ".join(f"{name}={value}" for name, value in self.variables.items())
        return " ".join(part for part in (self.id, said, self.line, self.machine, self.model) if part)


NO_ADAPTER = 'adapter "sql" (/absent) has no adapter_config.json; name the directory that holds it'
NO_FILE = (
    "--quantization smoothquant needs smoothq_model-8bit-auto.safetensors in the model directory; make it with "
    "`windlass quantize smoothquant MODEL --data FILE`, or take ifq"
)
TOO_OLD = (
    "Tesla V100-SXM2-32GB has 7.0, and the engine is vLLM 0.32.0, whose code begins at 7.5; serve the model by the "
    "DeepSpeed image, or on a newer card"
)
HOST_DRAFTS = {
    "method": "custom_class", "model": f"{LOOKAHEAD}.vllm_cpu.HostProposer", "num_speculative_tokens": 6,
}  # fmt: skip
DEVICE_DRAFTS = {
    "method": "ngram_gpu", "num_speculative_tokens": 6, "prompt_lookup_min": 2, "prompt_lookup_max": 4,
    "enable_adaptive_verification": True,
}  # fmt: skip
HOST_WORKER, DEVICE_WORKER = f"{LOOKAHEAD}.vllm_cpu.HostWorker", f"{LOOKAHEAD}.vllm_gpu.DeviceWorker"
RESUME = (
    "--dtype auto --quantization fp8 --use-lookahead --num-speculative-tokens 4 --max-model-len 32768 "
    "--enable-prefix-caching --disable-log-requests --api-keys mock_api_key --served-model-name model_123"
)
NATIVE = (
    "vllm serve /data/model --port 8501 -tp 2 --quantization fp8 --max-model-len 32768 --enable-prefix-caching "
    "--disable-log-requests --served-model-name model_123 --num-scheduler-steps 8"
)
MODULE = (
    "python3 -m vllm.entrypoints.openai.api_server --model /data/model --served-model-name model --trust-remote-code "
    "--quantization ifq --use-v2-block-manager --use-lookahead --num-speculative-tokens 6"
)
NATIVE_READS = {
    "args.model": "/data/model", "args.port": 8501, "args.tensor_parallel_size": 2,
    "args.quantization": "windlass_fp8", "args.max_model_len": 32768, "args.enable_prefix_caching": True,
    "args.served_model_name": ["model_123"],
    "args.enable_log_requests": False, "args.dtype": "auto",
}  # fmt: skip

FLAG_ROWS: tuple[Row, ...] = (
    Row("S1", reads={"args.quantization": None, "engine.model_config.quantization": None}),
    Row("S1", "--quantization none", {"engine.model_config.quantization": None}),
    Row("S1", "-q fp8", {"args.quantization": "windlass_fp8", "args.load_format": "auto"}, machine=L20),
    Row("S1", reads={"args.quantization": "windlass_fp8"}, variables={"QUANTIZATION": "fp8"}, machine=L20),
    *(Row("S1", f"{words} --quantization {name}", {"args.quantization": engine, "args.load_format": "windlass"},
          model=model, machine=machine)
      for words in ("", "vllm serve /data/model", "python3 -m vllm.entrypoints.openai.api_server --model /data/model")
      for name, engine, model in (("ifq", "ifq", SMALL), ("ifq_nf4", "ifq_nf4", SMALL), ("auto", "ifq", SMALL),
                                  ("smoothquant", "smoothquant", SMOOTH), ("auto", "smoothquant", SMOOTH))
      for machine in (L20, CPU)),
    *(Row("S1", f"--quantization {name}", {"engine.model_config.quantization": engine,
          "engine.model_config.dtype": "torch.float16"}, model=model)
      for name, engine, model in (("fp8", "windlass_fp8", SMALL), ("ifq", "ifq", SMALL),
                                  ("ifq_nf4 --dtype auto", "ifq_nf4", SMALL), ("smoothquant", "smoothquant", SMOOTH))),
    Row("S1", "--quantization auto --ignore-engine-limits", {"args.quantization": None}, machine=V100),
    Row("S1", "--quantization auto", {"args.quantization": None}, model=GPTQ, machine=L20),
    Row("S1", "--load-format dummy", {"args.load_format": "dummy"}),
    Row("S1", "--quantization fp8_per_channel", {"args.quantization": "fp8_per_channel"}, machine=L20),
    Row("S2", "--use-lookahead 0", {"engine.speculative_config": None}),
    Row("S2", reads={"engine.speculative_config": None}, variables={"USE_LOOKAHEAD": "false"}),
    *(Row("S2", line, {"args.speculative_config": HOST_DRAFTS, "args.worker_cls": HOST_WORKER,
          "engine.speculative_config.method": "custom_class", "engine.speculative_config.num_speculative_tokens": 6,
          "args.logits_processors": ["windlass.engine.sampling.no_repeat_ngram:NoRepeatNgram"]})
      for line in ("--use-lookahead", "--use-lookahead true", "vllm serve /data/model --use-lookahead",
                   "python3 -m vllm.entrypoints.openai.api_server --model /data/model --use-lookahead")),
    Row("S2", reads={"args.speculative_config": DEVICE_DRAFTS, "args.worker_cls": DEVICE_WORKER,
                     "args.scheduler_cls": "windlass.engine.lookahead.scheduler.LookaheadScheduler"},
        variables={"USE_LOOKAHEAD": "1"}, machine=L20),
    Row("S2", variables={"USE_LOOKAHEAD": "maybe"}, refused='variable USE_LOOKAHEAD is "maybe", which is no true or '
        "false; write true or false"),
    *(Row(**row) for file in ("offload", "sequence", "speculation", "dry_run") for row in json.loads(
        (HERE / f"{file}_rows.json").read_text().replace("{demo}", str(HERE.parents[2] / "models/demo")))),
    Row("S3", "--num-speculative-tokens 12", {"engine.speculative_config": None}, told="--num-speculative-tokens"),
    Row("S3", variables={"NUM_SPECULATIVE_TOKENS": "4"}, told="--num-speculative-tokens"),
    Row("S3", "--use-lookahead --num-speculative-tokens 12", {"engine.speculative_config.num_speculative_tokens": 12},
        {"NUM_SPECULATIVE_TOKENS": "4"}),
    Row("S3", "--use-lookahead", {"engine.speculative_config.num_speculative_tokens": 4},
        {"NUM_SPECULATIVE_TOKENS": "4"}),
    Row("S3", "--use-lookahead --num-speculative-tokens 0", refused="--num-speculative-tokens 0 cannot be drafted; set "
        "1 to 128"),
    Row("S3", "--num-speculative-tokens six", refused='--num-speculative-tokens is "six", which is no whole number; '
        "write it as digits, as 2"),
    Row("S4", reads={"engine.model_config.max_model_len": 2048}),
    Row("S4", reads={"engine.model_config.max_model_len": 8192}, model=LONG),
    Row("S4", "--max-model-len 32768", {"engine.model_config.max_model_len": 32768}, model=LONG),
    Row("S4", "--max_model_len=16K", {"engine.model_config.max_model_len": 16384}, model=LONG),
    Row("S4", reads={"engine.model_config.max_model_len": 4096}, variables={"MAX_MODEL_LEN": "4096"}, model=LONG),
    Row("S4", "--max-model-len 512", {"engine.model_config.max_model_len": 512}, {"MAX_MODEL_LEN": "1024"}),
    Row("S4", "--max-model-len 32768", refused="--max-model-len 32768 is longer than the model's own 2048 tokens; set "
        "at most 2048"),
    Row("S4", "--max-model-len lots", refused='--max-model-len is "lots", which is no number of tokens; write it as '
        "8192, 8K or auto"),
    Row("S5", reads={"engine.model_config.dtype": "torch.float16"}),
    *(Row("S5", f"--dtype {word}", {"engine.model_config.dtype": f"torch.{kind}"}) for word, kind in
      (("auto", "bfloat16"), ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"))),
    Row("S5", reads={"engine.model_config.dtype": "torch.float32"}, variables={"DTYPE": "float32"}),
    Row("S5", "--dtype int8", refused='--dtype is "int8"; choose one of auto, half, float16, bfloat16, float, float32'),
    Row("S6", reads={"engine.cache_config.enable_prefix_caching": True}),
    Row("S6", "--ignore-engine-limits", {"args.enable_prefix_caching": False}, machine=V100),
    Row("S6", "--enable-prefix-caching --ignore-engine-limits", {"args.enable_prefix_caching": True}, machine=V100),
    Row("S6", "--no-enable-prefix-caching", {"engine.cache_config.enable_prefix_caching": False}),
    Row("S6", reads={"engine.cache_config.enable_prefix_caching": False}, variables={"ENABLE_PREFIX_CACHING": "false"}),
    Row("S7", reads={"args.tensor_parallel_size": 4}, machine=L20_4),
    Row("S7", reads={"args.tensor_parallel_size": 2}, variables={"TP": "2"}, machine=L20_4),
    *(Row("S7", f"{flag} 2", {"args.tensor_parallel_size": 2}, {"TP": "1"}, machine=L20_4)
      for flag in ("--tensor-parallel-size", "--num-gpus", "-tp")),
    Row("S7", reads={"engine.parallel_config.tensor_parallel_size": 1}),
    Row("S7", "-tp 4", refused="--tensor-parallel-size 4 is more than the 2 GPUs of this container; ask for more or "
        "lower it", machine=L20_2),
    Row("S7", "-tp 3", refused="--tensor-parallel-size 3 does not divide the model's 4 attention heads; set it to 2",
        machine=L20_4),
    Row("S8", reads={"engine.model_config.trust_remote_code": True}),
    Row("S8", reads={"engine.model_config.trust_remote_code": False}, variables={"TRUST_REMOTE_CODE": "false"}),
    Row("S8", "--no-trust-remote-code", {"engine.model_config.trust_remote_code": False}),
    Row("S9", reads={"args.model": "/data/model"}),
    *(Row("S9", line, {"args.model": "/m"}) for line in ("--model /m", "--model-path /m", "/m")),
    *(Row("S9", reads={"args.model": "/m"}, variables={name: "/m"}) for name in ("MODEL", "MODEL_PATH")),
    Row("S10", reads={"args.port": 8501}),
    Row("S10", "--port 9000 --no-enable-offline-docs", {"args.port": 9000, "args.enable_offline_docs": False}),
    Row("S11", "--use-v2-block-manager", told="--use-v2-block-manager has no effect"),
    Row("S12", reads={"template": ""}),
    Row("S12", "--chat-template '{{ messages[0].content }}'", {"args.chat_template": "{{ messages[0].content }}"}),
    Row("S13", reads={"args.tool_call_parser": "hermes", "args.enable_auto_tool_choice": True}),
    Row("S13", reads={"args.tool_call_parser": None, "args.enable_auto_tool_choice": False}, model=PLAIN),
    Row("S13", "--no-enable-auto-tool-choice", {"args.tool_call_parser": None, "args.enable_auto_tool_choice": False}),
    Row("S13", "--enable-auto-tool-choice", {"args.tool_call_parser": "hermes", "args.enable_auto_tool_choice": True}),
    Row("S13", "--reasoning-parser qwen3", {"args.reasoning_parser": "qwen3"}),
    Row("S13", "--reasoning-parser none", {"args.reasoning_parser": ""}),
    *(Row("S13", f"--enable-auto-tool-choice --tool-call-parser {name}",
          {"args.tool_call_parser": name, "args.enable_auto_tool_choice": True})
      for name in ("llama3_json", "hermes", "mistral", "internlm")),
    Row("S13", "--enable-auto-tool-choice", refused="--enable-auto-tool-choice needs --tool-call-parser; add "
        "llama3_json, hermes, mistral or another", model=PLAIN),
    Row("S14", reads={"engine.cache_config.gpu_memory_utilization": 0.9}),
    Row("S14", "--gpu_memory_utilization 0.5", {"engine.cache_config.gpu_memory_utilization": 0.5}),
    Row("S14", reads={"engine.cache_config.gpu_memory_utilization": 0.95},
        variables={"GPU_MEMORY_UTILIZATION": "0.95"}),
    Row("S14", "--gpu-memory-utilization 95", refused='--gpu-memory-utilization is "95", which is no fraction; write a '
        "number above 0 and at most 1, as 0.9"),
    Row("S15", reads={"args.enforce_eager": False}, machine=L20),
    Row("S15", "--enforce-eager", {"args.enforce_eager": True}, machine=L20),
    Row("S15", reads={"args.enforce_eager": True}, variables={"ENFORCE_EAGER": "1"}, machine=L20),
    Row("S15", reads={"engine.model_config.enforce_eager": True}),
    Row("S16", reads={"engine.model_config.served_model_name": "model", "front.served_names": ["model"]}),
    Row("S16", reads={"args.served_model_name": ["My-7B"]}, variables={"MODEL_ID": "My-7B"}),
    Row("S16", "--served-model-name a", {"args.served_model_name": ["a"]}, {"MODEL_ID": "My-7B"}),
    Row("S17", reads={"template": "llama2.jinja"}, variables={"CONV_TEMPLATE": "llama-2"}),
    Row("S17", "--conv-template llama-2", {"template": "llama2.jinja"}, {"CONV_TEMPLATE": "qwen"}),
    Row("S18", reads={"plan.disable-mem-cache": False}),
    Row("S18", reads={"plan.disable-mem-cache": True}, variables={"DISABLE_MEM_CACHE": "true"}),
    Row("S18", "--disable-mem-cache", {"plan.disable-mem-cache": True}),
    Row("S19", reads={"args.data_parallel_size": 1}),
    Row("S19", "--worker-num 2", {"engine.parallel_config.data_parallel_size": 2}),
    Row("S19", reads={"args.data_parallel_size": 2, "args.tensor_parallel_size": 2}, variables={"WORKER_NUM": "2"},
        machine=L20_4),
    Row("S19", "--worker-num 0", refused="--worker-num 0 leaves no engine; set at least 1"),
    Row("S20", reads={"front.concurrency": 128}),
    Row("S20", "--limit-worker-concurrency 64", {"front.concurrency": 64}, {"MAX_CONCURRENCY": "9"}),
    Row("S20", reads={"front.concurrency": 9}, variables={"MAX_CONCURRENCY": "9"}),
    Row("S20", "--max-waiting-requests 5", {"front.queue": 5}),
    Row("S20", reads={"front.queue": 6}, variables={"MAX_WAITING_REQUESTS": "6"}),
    Row("S21", reads={"args.seed": 0}),
    Row("S21", "--seed 7", {"engine.model_config.seed": 7}),
    Row("S21", reads={"engine.model_config.seed": 9}, variables={"SEED": "9"}),
    Row("S22", reads={"env.WINDLASS_API_KEYS": None, "env.VLLM_API_KEY": "", "args.api_key": None}),
    Row("S22", "--api-keys sk-x,sk-y", {"env.WINDLASS_API_KEYS": "sk-x,sk-y", "args.api_key": None}),
    Row("S22", reads={"env.WINDLASS_API_KEYS": "sk-x,sk-y,sk-z"}, variables={"OPENAI_API_KEYS": "sk-x,sk-y,sk-z"}),
    Row("S22", reads={"env.WINDLASS_API_KEYS": "sk-v"}, variables={"VLLM_API_KEY": "sk-v"}),
    Row("S22", "--api-keys-file /etc/keys", {"front.keys_file": "/etc/keys"}),
    Row("S22", reads={"front.keys_file": "/etc/keys"}, variables={"OPENAI_API_KEYS_FILE": "/etc/keys"}),
    Row("S22", "--close-metrics", {"front.metrics_closed": True}),
    Row("S22", reads={"front.metrics_closed": True}, variables={"CLOSE_METRICS": "1"}),
    Row("S22", "--max-request-mib 1", {"front.max_body_bytes": 1048576}),
    Row("S22", reads={"front.max_body_bytes": 2097152}, variables={"MAX_REQUEST_MIB": "2"}),
    Row("S22", "--max-json-mib 1", {"front.max_json_bytes": 1048576}),
    Row("S22", reads={"front.max_json_bytes": 2097152}, variables={"MAX_JSON_MIB": "2"}),
    Row("S22", "--allowed-hosts a.example", {"front.allowed_hosts": ["a.example"]}),
    Row("S22", reads={"front.allowed_hosts": ["a.example"]}, variables={"ALLOWED_HOSTS": "a.example"}),
    Row("S22", "--opened-routes /v1/load_lora_adapter", {"front.opened_routes": ["/v1/load_lora_adapter"]}),
    Row("S22", reads={"front.opened_routes": ["/sleep"]}, variables={"OPENED_ROUTES": "/sleep"}),
    Row("S23", reads={"args.max_num_seqs": 256, "args.max_num_batched_tokens": 8192}, model=LONG, machine=L20),
    Row("S23", reads={"args.max_num_batched_tokens": 2048}, machine=L20),
    Row("S23", "--max-num-batched-tokens 4096 --max-num-seqs 8",
        {"engine.scheduler_config.max_num_batched_tokens": 4096, "engine.scheduler_config.max_num_seqs": 8}),
    Row("S24", "--disable-log-requests", {"args.enable_log_requests": False}, told="--disable-log-requests has no"),
    Row("S24", "--served-model-name a b", {"args.served_model_name": ["a", "b"], "front.served_names": ["a", "b"]}),
    Row("S24", "--num-scheduler-steps 8", told="--num-scheduler-steps has no effect"),
    Row("S25", "--enable-lora --max-lora-rank 8 --max-loras 2 --max-cpu-loras 4",
        {"engine.lora_config.max_lora_rank": 8, "engine.lora_config.max_loras": 2,
         "engine.lora_config.max_cpu_loras": 4}),
    Row("S25", reads={"engine.lora_config": None}, variables={"ENABLE_LORA": "false"}),
    Row("S25", "--lora-modules sql=/absent", refused=NO_ADAPTER),
    Row("S25", variables={"LORA_MODULES": "sql=/absent"}, refused=NO_ADAPTER),
    *(Row("S25", line, refused="--merge-lora sql names no adapter; there are: none", variables=variables)
      for line, variables in (("--merge-lora sql", {}), ("", {"MERGE_LORA": "sql"}))),
    *(Row("S25", line, refused="--base-model is /b, and model directory {model} is a complete model; leave one of them "
          "out", variables=variables) for line, variables in (("--base-model /b", {}), ("", {"BASE_MODEL": "/b"}))),
    Row("S27", reads={"args.served_model_name": ["Qwen2.5-7B-Instruct"], "args.tool_call_parser": "hermes"},
        model=NAMED),
    Row("S27", reads={"args.served_model_name": ["Llama-2-7b-chat"], "template": "llama2.jinja"},
        variables={"MODEL_ID": "Llama-2-7b-chat"}, model=NAMED),
    *(Row("S29", f"--quantization {name}", refused=f"--quantization {name} cannot be put on a model that is {model} "
          "already; leave --quantization out", model=model, machine=L20)
      for name in ("ifq", "ifq_nf4", "fp8", "smoothquant") for model in (GPTQ, FP8)),
    Row("S29", "--ignore-engine-limits", {"plan.ignore-engine-limits": True}),
    Row("S29", reads={"plan.ignore-engine-limits": True}, variables={"IGNORE_ENGINE_LIMITS": "true"}),
    Row("S29", "--quantization ifq_nf4 --dtype bfloat16", refused="--quantization ifq_nf4 runs with float16 only, not "
        "bfloat16; set --dtype float16, take fp8, or leave --quantization out", machine=L20),
    Row("S29", "--quantization fp8", refused="--quantization fp8 needs compute capability 8.9, and Tesla T4 has 7.5; "
        "take ifq, or leave --quantization out", machine=T4),
    Row("S29", "--quantization ifq_nf4", refused="--quantization ifq_nf4 needs compute capability 8.0, and Tesla T4 "
        "has 7.5; take ifq, or leave --quantization out", machine=T4),
    Row("S29", "--quantization ifq", refused=TOO_OLD, machine=V100),
    Row("V2", reads={"engine.model_config.multimodal_config": None, "front.image_domains": [],
                     "args.allowed_media_domains": ["no-host-is-allowed.invalid"],
                     "env.VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"}),
    Row("V2", "--allowed-media-domains a.example b.example",
        {"args.allowed_media_domains": ["a.example", "b.example"], "front.image_domains": ["a.example", "b.example"]}),
    Row("V2", reads={"args.allowed_media_domains": ["a.example"]}, variables={"ALLOWED_MEDIA_DOMAINS": "a.example"}),
    Row("traces", reads={"args.otlp_traces_endpoint": "http://c:4317", "env.WINDLASS_TRACES": "1"},
        variables={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}),
    Row("A13", reads={"front.no_repeat_missing": "", "engine.model_config.logits_processors":
                      ["windlass.engine.sampling.no_repeat_ngram:NoRepeatNgram"]}),
    Row("A14", "--generation-config vllm", {"engine.model_config.generation_config": "vllm"}),
    Row("A1", "--lookahead-cache-config-dir /etc/lookahead", {"args.speculative_config": HOST_DRAFTS,
        "lookahead.config_dir": "/etc/lookahead"}),
    Row("A5", "--use-lookahead", {"lookahead.memory_share": 0.15, "lookahead.ignore_prompt": False}),
    Row("A5", "--use-lookahead --cpu-decoding-memory-utilization 0.3 --ignore-prompt-for-lookahead-cache",
        {"lookahead.memory_share": 0.3, "lookahead.ignore_prompt": True}),
    Row("S29", "--use-lookahead --num-scheduler-steps 8", refused="--use-lookahead and --num-scheduler-steps 8 exclude "
        "each other; leave one of the two out"),
    Row("S29", "--use-lookahead --enable-chunked-prefill", refused="--use-lookahead and --enable-chunked-prefill "
        "exclude each other; set --enable-chunked-prefill false"),
    Row("O5", "--use-lookahead --pipeline-parallel-size 2 -tp 1", {"args.speculative_config": None}, machine=L20_2,
        told="--use-lookahead is off for this start: the engine cannot draft over 2 stages"),
    Row("O5", "--pipeline-parallel-size 2 -tp 1", {"args.pipeline_parallel_size": 2}, machine=L20_2),
    Row("S19", "--api-server-count 2", reads={"front.processes": 2, "front.concurrency": 128}),
    Row("S19", reads={"front.processes": 3}, variables={"API_SERVER_COUNT": "3"}),
    Row("S19", reads={"args.shutdown_timeout": 60}),
    Row("S19", "--shutdown-timeout 7", reads={"args.shutdown_timeout": 7}),
    Row("S19", reads={"args.shutdown_timeout": 8}, variables={"SHUTDOWN_TIMEOUT": "8"}),
)  # fmt: skip

WORDS = {"llama3_json": ("llama3_json", True), "hermes": ("hermes", True), "": (None, False)}
TEMPLATES = (
    # CONV_TEMPLATE, MODEL_ID, template, parser, stop tokens
    ("generate", "", "generate.jinja", "", ()),
    ("hunyuan", "Tencent-Hunyuan-Large-Instruct", "hunyuan.jinja", "", (127960, 127967)),
    ("llama-3.2", "Llama-3.2-3B-Instruct", "llama3.2_json.jinja", "llama3_json", ()),
    ("llama-3.1", "Meta-Llama-3.1-8B-Instruct", "llama3.1_json.jinja", "llama3_json", ()),
    ("qwen2.5", "Qwen2.5-7B-Instruct", "", "hermes", ()),
    ("baichuan2-chat", "Baichuan2-13B-Chat", "baichuan.jinja", "", ()),
    ("llama-2", "Llama-2-7b-chat-hf", "llama2.jinja", "", ()),
    ("llama-3", "Meta-Llama-3-8B-Instruct", "llama3.jinja", "", (128001, 128009)),
    ("qwen", "Qwen1.5-14B-Chat", "qwen.jinja", "", (151643, 151644, 151645)),
    ("qwen-7b-chat", "QWEN-7B-CHAT", "qwen.jinja", "", (151643, 151644, 151645)),
    ("baichuan-chat", "", "baichuan1.jinja", "", ()),
    ("chatglm3", "", "chatglm3.jinja", "", (64795, 64797)),
    ("chatglm2", "", "chatglm2.jinja", "", ()),
)
OWN_STOPS = [2, 0]
VISION = "serve Qwen2.5-VL-7B-Instruct or Llama-4-Scout-17B-16E-Instruct"
VISION_GONE = (
    "the engine no longer has the models of conv-template llama-3.2-vision (Llama 3.2 Vision Instruct); " + VISION
)


YIELDS = ("qwen", "qwen-7b-chat")
"""Rows that a model's id chooses only where its own template reads no tools."""


def _template_rows() -> list[Row]:
    """Each row of table T by its name and by a model's id."""
    rows = []
    for name, model_id, file, parser, stops in TEMPLATES:
        tool, auto = WORDS[parser]
        reads: dict[str, object] = {"template": file, "stops": [*OWN_STOPS, *stops]}
        reads |= {"args.tool_call_parser": tool, "args.enable_auto_tool_choice": auto}
        rows.append(Row(f"T {name}", reads=reads, variables={"CONV_TEMPLATE": name}, model=LONG))
        if model_id:
            named = reads | {"args.served_model_name": [model_id]}
            if name in YIELDS:  # of a model whose vocabulary has none of the row's stop tokens
                named |= {"stops": OWN_STOPS}
            model = PLAIN if name in YIELDS else LONG
            rows.append(Row(f"T {name}", reads=named, variables={"MODEL_ID": model_id}, model=model))
    return rows


TEMPLATE_ROWS: tuple[Row, ...] = (
    *_template_rows(),
    Row("T qwen, whose own template reads tools", reads={"template": "", "args.tool_call_parser": "hermes"},
        variables={"MODEL_ID": "Qwen3-8B-Instruct"}, model=LONG),
    Row("T shennong_chat", reads={"template": "shennong.jinja"}, variables={"CONV_TEMPLATE": "shennong_chat"},
        model=PLAIN),
    Row("T shennong_chat", reads={"template": "shennong.jinja"}, variables={"MODEL_ID": "SN-13B"}, model=PLAIN),
    Row("T shennong_chat", reads={"template": ""}, variables={"MODEL_ID": "shennong-7b"}),
    Row("T llama-3.2-vision", variables={"CONV_TEMPLATE": "llama-3.2-vision"}, refused=VISION_GONE),
    Row("T llama-3.2-vision", variables={"MODEL_ID": "Llama-3.2-11B-Vision-Instruct"}, refused=VISION_GONE),
    Row("T llama-3.2-vision", refused="the model is a MllamaForConditionalGeneration, which vLLM 0.10.2 was the last "
        f"to have; {VISION}", model=MLLAMA),
    Row("T nothing matches", reads={"template": "", "args.tool_call_parser": "hermes", "stops": OWN_STOPS},
        variables={"MODEL_ID": "Mistral-7B-Instruct-v0.2"}),
    Row("T no such name", variables={"CONV_TEMPLATE": "vicuna"}, refused='variable CONV_TEMPLATE is "vicuna", which is '
        "no chat template; choose one of generate, hunyuan, shennong_chat, llama-3.2-vision, llama-3.2, llama-3.1, "
        "qwen2.5, baichuan2-chat, llama-2, llama-3, qwen, qwen-7b-chat, baichuan-chat, chatglm3, chatglm2, or leave it "
        "out"),
)  # fmt: skip

WORD_ROWS: tuple[Row, ...] = (
    Row("words", "--kv-offloading-s 4 --no-async-scheduling --enable_log_requests --block-size=32",
        {"args.kv_offloading_size": 4, "args.async_scheduling": False, "args.enable_log_requests": True,
         "args.block_size": 32}),
    Row("words", "--hf-overrides.a.b 1 --hf_overrides.c=x", {"args.hf_overrides": {"a": {"b": 1}, "c": "x"}}),
    Row("words", "--allow-unknown-flags --block-size 32", {"plan.allow-unknown-flags": True, "args.block_size": 32}),
    Row("words", reads={"plan.allow-unknown-flags": True}, variables={"ALLOW_UNKNOWN_FLAGS": "true"}),
    Row("words", "--quantisation fp8", refused="there is no flag --quantisation, nor has vLLM 0.32.0 one; write "
        "--quantization, or add --allow-unknown-flags to pass it on"),
    Row("words", "--enable-log-requests yes", refused='"yes" belongs to no flag: --enable-log-requests takes no value; '
        "leave one of them out"),
)  # fmt: skip

PRESET_ROWS: tuple[Row, ...] = (
    Row("run", "", {"args.model": "/data/model", "args.port": 8501, "args.dtype": "float16"}, model=HUGE, machine=L20),
    Row("minimum resources", "--quantization ifq_nf4 --enforce-eager --gpu-memory-utilization 0.95 --max-model-len "
        "2048", {"args.quantization": "ifq_nf4", "args.enforce_eager": True, "args.max_model_len": 2048,
                 "args.gpu_memory_utilization": 0.95, "args.dtype": "float16"}, machine=L20),
    Row("resume parsing", RESUME, {"args.speculative_config": DEVICE_DRAFTS | {"num_speculative_tokens": 4},
        "args.worker_cls": DEVICE_WORKER, "args.max_model_len": 32768}, model=LONG, machine=L20),
    Row("resume parsing without lookahead", RESUME.replace("--use-lookahead ", ""),
        {"args.dtype": "auto", "args.quantization": "windlass_fp8", "args.max_model_len": 32768,
         "args.enable_prefix_caching": True, "args.served_model_name": ["model_123"],
         "env.WINDLASS_API_KEYS": "mock_api_key"}, model=LONG, machine=L20),
    Row("native", NATIVE, NATIVE_READS, told="--num-scheduler-steps has no effect", model=LONG, machine=L20_2),
    Row("module", MODULE, {"args.speculative_config": DEVICE_DRAFTS, "args.worker_cls": DEVICE_WORKER,
        "args.quantization": "ifq"}, told="--use-v2-block-manager has no effect", machine=L20),
    Row("int8 by variable", reads={"args.quantization": "ifq", "args.dtype": "float16"},
        variables={"QUANTIZATION": "ifq"}, machine=L20),
    Row("002 quantization", "--quantization smoothquant", refused=NO_FILE, machine=L20),
    Row("002 quantization", "--quantization auto", {"args.quantization": "ifq"}, machine=L20),
    Row("002 quantization", "--quantization smoothquant", {"args.quantization": "smoothquant"}, model=SMOOTH,
        machine=L20),
    Row("less context", reads={"args.max_model_len": 4096}, variables={"MAX_MODEL_LEN": "4096"}, model=HUGE,
        machine=L20),
    Row("more memory", reads={"args.gpu_memory_utilization": 0.95, "args.enforce_eager": True},
        variables={"GPU_MEMORY_UTILIZATION": "0.95", "ENFORCE_EAGER": "1"}, machine=L20),
    Row("lookahead by variable", variables={"USE_LOOKAHEAD": "1", "NUM_SPECULATIVE_TOKENS": "12"},
        reads={"args.speculative_config": DEVICE_DRAFTS | {"num_speculative_tokens": 12}}, machine=L20),
    Row("chunked prefill off", "--enable-chunked-prefill false", {"args.enable_chunked_prefill": False}, machine=L20),
    Row("GPTQ as it is", reads={"args.quantization": None}, variables={"VLLM_ALLOW_QUANT_LM_HEAD": "0"}, model=GPTQ,
        machine=L20),
    Row("tool calls", "--enable-auto-tool-choice --tool-call-parser hermes",
        {"args.enable_auto_tool_choice": True, "args.tool_call_parser": "hermes"}, machine=L20),
    Row("tool calls by id", reads={"args.enable_auto_tool_choice": True, "args.tool_call_parser": "hermes"},
        variables={"MODEL_ID": "Qwen/Qwen2.5-7B-Instruct"}, model=LONG, machine=L20),
    Row("a card each", "--num-gpus 1 --worker-num 2", {"args.tensor_parallel_size": 1, "args.data_parallel_size": 2},
        machine=L20_2),
)  # fmt: skip

ROWS: tuple[Row, ...] = (*FLAG_ROWS, *WORD_ROWS, *TEMPLATE_ROWS, *PRESET_ROWS)
