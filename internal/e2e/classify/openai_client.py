"""Ask a moderations endpoint with OpenAI's own SDK, check the answer by the SDK's types,
strictly, and print its results as JSON.

usage: openai_client.py BASE-URL MODEL TEXT...
"""
import json
import sys

import openai
from openai.types import ModerationCreateResponse

base_url, model, *texts = sys.argv[1:]
with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
    answer = client.moderations.with_raw_response.create(model=model, input=texts)
    # The SDK itself takes what it gets; its types say what it should be.
    parsed = ModerationCreateResponse.model_validate_json(answer.http_response.content, strict=True)
    if extra := [f for r in parsed.results for f in (r.categories.model_extra, r.category_scores.model_extra) if f]:
        sys.exit(f"the SDK knows nothing of {extra}")
json.dump([r.model_dump(by_alias=True) for r in parsed.results], sys.stdout)
