"""Serve Presidio's analyzer over HTTP, as its container does.

The analyzer is the real one, from PyPI. The program that serves it in Presidio's
container (app.py) is in neither its wheel nor its source archive, so this is one of
our own after the documented API, on the same framework:

    GET  /health
    POST /analyze            {"text": str or list, "language": str, "entities": [...], ...}
    GET  /supportedentities  ?language=en
    GET  /recognizers        ?language=en

Every answer is JSON. An exception of the analyzer is a 500, one about types a 400,
and what the framework refuses keeps its status; each with {"error": why}.

usage: presidio_server.py --port N --model DIR [--nlp spacy|no_op]

--model is where a spaCy pipeline is written: English without any trained part, plus
a rule by which two made-up names are persons. Trained pipelines are not on PyPI.
"""
import argparse
import json
import pathlib
import sys

import spacy
import yaml
from flask import Flask, Response, request
from presidio_analyzer import AnalyzerEngineProvider, AnalyzerRequest, BatchAnalyzerEngine
from werkzeug.exceptions import HTTPException

PERSONS = ("Mara Lindqvist", "Özgür Ateş")
OPTIONS = ("correlation_id", "score_threshold", "entities", "return_decision_process",
           "ad_hoc_recognizers", "context", "allow_list", "allow_list_match", "regex_flags")


def configuration(nlp: str, model: pathlib.Path) -> pathlib.Path:
    """Write what the analyzer is configured with, and return where."""
    name = "no_op"
    if nlp == "spacy":
        name = str(model / "pipeline")
        pipeline = spacy.blank("en")
        pipeline.add_pipe("entity_ruler").add_patterns(
            [{"label": "PERSON", "pattern": person} for person in PERSONS])
        pipeline.to_disk(name)
    file = model / f"{nlp}.yaml"
    file.write_text(yaml.safe_dump({
        "nlp_engine_name": nlp,
        "models": [{"lang_code": "en", "model_name": name}],
        **({"ner_model_configuration": {"model_to_presidio_entity_mapping": {"PERSON": "PERSON"}}} if nlp == "spacy" else {}),
    }))
    return file


def answer(value, status: int = 200) -> Response:
    text = json.dumps(value, default=lambda o: o.to_dict(), sort_keys=True)
    return Response(text, status, content_type="application/json")


def application(nlp: str, model: pathlib.Path) -> Flask:
    engine = AnalyzerEngineProvider(nlp_engine_conf_file=configuration(nlp, model)).create_engine()
    batches = BatchAnalyzerEngine(engine)
    app = Flask("presidio")

    @app.get("/health")
    def health():
        return answer("up")

    @app.post("/analyze")
    def analyze():
        asked = AnalyzerRequest(request.get_json())
        for name in ("text", "language"):
            if not getattr(asked, name):
                raise ValueError(f"No {name} provided")
        engine.get_supported_entities(asked.language)  # refuses a language that it does not have
        several = isinstance(asked.text, list)
        found = list(batches.analyze_iterator(
            texts=asked.text if several else [asked.text], language=asked.language,
            **{name: getattr(asked, name) for name in OPTIONS}))
        for results in found:
            for result in results:
                del result.recognition_metadata
        return answer(found if several else found[0])

    @app.get("/supportedentities")
    def entities():
        return answer(engine.get_supported_entities(request.args.get("language")))

    @app.get("/recognizers")
    def recognizers():
        return answer([r.name for r in engine.get_recognizers(request.args.get("language"))])

    @app.errorhandler(Exception)
    def failed(e):
        if isinstance(e, HTTPException):
            return answer({"error": e.description}, e.code)
        return answer({"error": str(e)}, 400 if isinstance(e, TypeError) else 500)

    return app


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--port", type=int, required=True)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--nlp", choices=("spacy", "no_op"), default="spacy")
    a = p.parse_args()
    a.model.mkdir(parents=True, exist_ok=True)
    application(a.nlp, a.model).run(host="127.0.0.1", port=a.port, threaded=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
