"""summary.py WORKLOAD GUIDELLM_JSON OUT: the figures we compare, as flat JSON."""
import json
import sys

workload, src, dst = sys.argv[1:]
with open(src, encoding="utf-8") as f:
    bench = json.load(f)["benchmarks"][0]
m = bench["metrics"]


def stat(name, scale=1.0):
    s = m[name]["successful"]
    p = s["percentiles"]
    return {"mean": round(s["mean"] * scale, 2),
            **{k: round(p[k] * scale, 2) for k in ("p50", "p90", "p95", "p99")}}


done = bench["requests"]["successful"]
prompt = sum(r["prompt_tokens"] or 0 for r in done)
known = [r["cached_tokens"] for r in done if r.get("cached_tokens") is not None]
out = {
    "workload": workload,
    "requests": m["request_totals"],
    "duration_s": round(bench["duration"], 2),
    "ttft_ms": stat("time_to_first_token_ms"),
    "e2e_ms": stat("request_latency", 1000),  # the report has seconds here
    "itl_ms": stat("inter_token_latency_ms"),
    "prompt_tokens": prompt,
    "cached_tokens": sum(known),
    # The engine's own word, from usage.prompt_tokens_details.
    "cached_share": round(sum(known) / prompt, 4) if prompt else None,
}
with open(dst, "w", encoding="utf-8") as f:
    json.dump(out, f, indent=1)
    f.write("\n")
print(json.dumps(out))
