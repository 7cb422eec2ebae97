"""The OpenAPI description of `fedforest serve`."""

from typing import Any

from fedforest.release import __version__

_VALUE = {"type": ["string", "number", "boolean", "null"]}
_SCHEMAS: dict[str, Any] = {
    "Column": {
        "type": "object",
        "required": ["name", "type"],
        "properties": {"name": {"type": "string"}, "type": {"enum": ["number", "category"]}},
    },
    "Model": {
        "type": "object",
        "required": ["id", "task", "trees", "columns"],
        "properties": {
            "id": {"type": "string"},
            "task": {"enum": ["classification", "regression"]},
            "trees": {"type": "integer", "minimum": 1},
            "columns": {"type": "array", "items": {"$ref": "#/components/schemas/Column"}},
            "classes": {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
        },
    },
    "Models": {
        "type": "object",
        "required": ["models"],
        "properties": {
            "models": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}
        },
    },
    "PredictionBody": {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {
            "rows": {
                "type": "array",
                "minItems": 1,
                "description": "Values in the order of the model's columns, or by their names; "
                "null is a missing value.",
                "items": {
                    "anyOf": [
                        {"type": "array", "items": _VALUE},
                        {"type": "object", "additionalProperties": _VALUE},
                    ]
                },
            }
        },
    },
    "Predictions": {
        "type": "object",
        "required": ["model", "predictions"],
        "properties": {
            "model": {"type": "string"},
            "predictions": {
                "type": "array",
                "description": "A class or a number for each row, in their order.",
                "items": {"type": ["string", "number", "boolean"]},
            },
            "classes": {
                "type": "array",
                "description": "The order of probabilities.",
                "items": {"type": ["string", "number", "boolean"]},
            },
            "probabilities": {
                "type": "array",
                "items": {"type": "array", "items": {"type": "number"}},
            },
        },
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string"},
        },
    },
}
_MODEL = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}


def _answers(schema: str, *problems: int) -> dict[str, Any]:
    good = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    bad = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers: dict[str, Any] = {"200": {"description": "The answer.", "content": good}}
    for status in (401, 403, 429, *problems):
        answers[str(status)] = {"description": "A problem, in words.", "content": bad}
    return answers


def describe_api() -> dict[str, Any]:
    """Return the description, in JSON's own types."""
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/PredictionBody"}}}
    predict = {
        "operationId": "predict",
        "summary": "Predict rows with a model.",
        "parameters": [_MODEL],
        "requestBody": {"required": True, "content": body},
        "responses": _answers("Predictions", 400, 404, 408, 413, 415, 422, 503),
    }
    show = {
        "operationId": "showModel",
        "summary": "Show a model: its task, columns and classes.",
        "parameters": [_MODEL],
        "responses": _answers("Model", 404),
    }
    models = {
        "operationId": "listModels",
        "summary": "List the models that are served.",
        "responses": _answers("Models"),
    }
    description = {
        "operationId": "describe",
        "summary": "Return this description.",
        "responses": {
            **_answers("Problem"),
            "200": {
                "description": "OpenAPI 3.1.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "fedforest serve", "version": __version__},
        "paths": {
            "/v1/models": {"get": models},
            "/v1/models/{model}": {"get": show},
            "/v1/models/{model}/predictions": {"post": predict},
            "/v1/openapi.json": {"get": description},
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
