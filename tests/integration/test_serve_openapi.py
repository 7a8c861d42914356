"""schemathesis reads the OpenAPI document and asks whatever it allows, and much that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import sampled_from
from image_help import picture, tiny_captioner
from serve_help import GERMAN, running_models, served, tiny

from regard.serve.image_models import ServedCaptioner
from regard.serve.models import ServedModels
from regard.serve.settings import ServeSettings

ENDPOINTS = [
    *("POST /translate", "POST /detect", "GET /languages", "GET /health", "GET /frontend/settings"),
    *("GET /api/diagram", "GET /api/models", "POST /api/look", "POST /api/node", "POST /api/vectors"),
    *("POST /api/translate/stream", "GET /metrics", "POST /api/look-image", "GET /api/sample-image"),
    *("POST /translate_file", "GET /download_file/{name}"),
]
patiently = settings(max_examples=20, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def operations() -> Iterator[dict[str, Any]]:
    import schemathesis

    for kind in ("PNG", "JPEG"):  # what makes bytes an image, a schema cannot say
        schemathesis.openapi.media_type(f"image/{kind.lower()}", sampled_from([picture(form=kind)]))
    translating = [
        served(tiny()),
        served(tiny(GERMAN), "other", "de", "en"),
    ]  # every language can be any other's target
    models = ServedModels(translating, [ServedCaptioner("scenes", tiny_captioner())])
    with running_models(models, ServeSettings(max_characters=500)) as server:
        # 413 is how we refuse what is too much
        refusals = {"negative_data_rejection": {"expected-statuses": ["400", "404", "413", "422"]}}
        config = schemathesis.Config.from_dict({"checks": refusals})
        document = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)
        yield {found.ok().label: found.ok() for found in document.get_all_operations()}


def test_every_endpoint_is_told_of(operations: dict[str, Any]) -> None:
    assert sorted(operations) == sorted(ENDPOINTS)


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_answer_is_one_that_the_document_tells_of(operations: dict[str, Any], endpoint: str, mode: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    if mode == "negative" and endpoint.startswith("GET"):
        pytest.skip("nothing to get wrong")

    @given(operations[endpoint].as_strategy(generation_mode=GenerationMode(mode)))
    @patiently
    def ask(case: Any) -> None:
        # which names and bytes make a text file, a schema cannot say
        case.call_and_validate(excluded_checks=[positive_data_acceptance] if endpoint == "POST /translate_file" else [])

    ask()
