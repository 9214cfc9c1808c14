"""Reads the master's OpenAPI document and checks values against its schemas.

This module knows only the part of JSON Schema that the document uses; any other keyword in the
document is an error.
"""

import re
import urllib.parse

METHODS = ("get", "put", "post", "delete", "patch")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
SCHEMA_KEYS = {"type", "format", "pattern", "contentEncoding", "enum", "items", "properties", "required",
               "additionalProperties", "oneOf", "$ref", "description", "default", "x-muster"}
BESIDE_REF = {"$ref", "description", "default", "x-muster"}


class SchemaError(AssertionError):
    """A value does not match its schema, or the document does not follow OpenAPI 3.1."""


class Document:
    def __init__(self, text):
        self.text = text
        self.schemas = text["components"]["schemas"]
        self.routes = []  # (method, parts of the path, operation)
        for path, item in text["paths"].items():
            for method, operation in item.items():
                self.routes.append((method.upper(), path, operation))

    # operations

    def find(self, method, path):
        """Returns (path of the document, operation) of a call, or None. Literal parts win over
        {..}."""
        parts = [urllib.parse.unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        best = None
        for found, template, operation in self.routes:
            wanted = template.strip("/").split("/")
            if found != method or len(wanted) != len(parts):
                continue
            if all(w.startswith("{") and p or w == p for w, p in zip(wanted, parts)):
                rank = [w.startswith("{") for w in wanted]
                if best is None or rank < best[0]:
                    best = rank, template, operation
        return best and best[1:]

    def content(self, operation):
        """Returns (media type, its object) of the successful answer."""
        return next(iter(operation["responses"]["200"]["content"].items()))

    def check_answer(self, operation, value, where):
        media, content = self.content(operation)
        if media == "application/json":
            self.check(content["schema"], value, where)

    def check_error(self, value, where):
        self.check({"$ref": "#/components/schemas/Error"}, value, where)

    # values

    def resolve(self, schema):
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].removeprefix("#/components/schemas/")]
        return schema

    def check(self, schema, value, where):
        """Raises SchemaError unless the value matches the schema and has no key that the schema does not
        name."""
        schema = self.resolve(schema)
        if "oneOf" in schema:
            self.check_one_of(schema["oneOf"], value, where)
        if "enum" in schema and value not in schema["enum"]:
            raise SchemaError(f"{where}: {value!r} is not one of {schema['enum']}")
        if "type" in schema and not is_type(schema["type"], value):
            raise SchemaError(f"{where}: {str(value)[:80]!r} is not of type {schema['type']}")
        if isinstance(value, str):
            check_text(schema, value, where)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                self.check(schema.get("items", {}), item, f"{where}[{i}]")
        elif isinstance(value, dict):
            self.check_object(schema, value, where)

    def check_one_of(self, schemas, value, where):
        faults = []
        for schema in schemas:
            try:
                self.check(schema, value, where)
            except SchemaError as wrong:
                faults.append(str(wrong))
        if len(schemas) - len(faults) != 1:
            raise SchemaError(f"{where}: matches {len(schemas) - len(faults)} of {len(schemas)} alternatives: " + "; ".join(faults))

    def check_object(self, schema, value, where):
        for name in schema.get("required", []):
            if name not in value:
                raise SchemaError(f"{where}: has no \"{name}\"")
        properties = schema.get("properties")
        for name, item in value.items():
            if properties and name in properties:
                self.check(properties[name], item, f"{where}.{name}")
            elif "additionalProperties" in schema:
                self.check(schema["additionalProperties"], item, f"{where}.{name}")
            elif properties is not None:
                raise SchemaError(f"{where}: \"{name}\" is not in the document")

    # the document

    def check_structure(self):
        """Raises SchemaError unless the document is an OpenAPI 3.1 document that follows our conventions.
        """
        only(self.text, "document", {"openapi", "info", "paths", "components"})
        if not re.fullmatch(r"3\.1\.\d+", self.text["openapi"]):
            raise SchemaError("openapi: the version is not 3.1")
        only(self.text["info"], "info", {"title", "version"}, {"description"})
        only(self.text["components"], "components", {"securitySchemes", "responses", "schemas"})
        for name, schema in self.schemas.items():
            if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
                raise SchemaError(f"schema {name}: not a valid component name")
            self.check_schema(schema, name)
        seen = set()
        for path, item in self.text["paths"].items():
            if not path.startswith("/") or not set(item) <= set(METHODS):
                raise SchemaError(f"{path}: {sorted(item)}")
            for method, operation in item.items():
                self.check_operation(f"{method} {path}", path, operation)
                seen.add(operation["operationId"])
        if len(seen) != len(self.routes):
            raise SchemaError("an operationId is used twice")

    def check_operation(self, where, path, operation):
        only(operation, where, {"operationId", "summary", "tags", "parameters", "security", "responses"},
             {"requestBody", "x-muster"})
        names = [(p["in"], p["name"]) for p in operation["parameters"]]
        if len(set(names)) != len(names):
            raise SchemaError(f"{where}: a parameter is declared twice")
        in_path = [name for place, name in names if place == "path"]
        if in_path != re.findall(r"\{(\w+)\}", path):
            raise SchemaError(f"{where}: parameters {in_path}")
        for parameter in operation["parameters"]:
            only(parameter, where, {"name", "in", "required", "description", "schema"})
            if parameter["required"] != (parameter["in"] == "path"):
                raise SchemaError(f"{where}: {parameter['name']}: \"required\" does not follow the rule")
            self.check_schema(parameter["schema"], f"{where} {parameter['name']}")
        for scheme in operation["security"]:
            if not set(scheme) <= set(self.text["components"]["securitySchemes"]):
                raise SchemaError(f"{where}: {scheme}")
        if "requestBody" in operation:
            only(operation["requestBody"], where, {"content", "x-muster-limit"})
            self.check_content(operation["requestBody"]["content"], where)
        responses = operation["responses"]
        only(responses, where, {"200", "default"})
        only(responses["200"], where, {"description", "content"})
        self.check_content(responses["200"]["content"], where)
        if responses["default"] != {"$ref": "#/components/responses/Error"}:
            raise SchemaError(f"{where}: the schema of an error is wrong")

    def check_content(self, content, where):
        for media, item in content.items():
            only(item, f"{where} {media}", {"schema"}, {"x-muster-stream"})
            self.check_schema(item["schema"], f"{where} {media}")

    def check_schema(self, schema, where):
        if not isinstance(schema, dict) or not set(schema) <= SCHEMA_KEYS:
            raise SchemaError(f"{where}: {schema}")
        if "$ref" in schema:
            if not set(schema) <= BESIDE_REF or schema["$ref"].rpartition("/")[2] not in self.schemas:
                raise SchemaError(f"{where}: {schema}")
            return
        if "default" in schema:
            self.check(schema, schema["default"], f"{where} default")
        types = schema.get("type", [])
        for name in [types] if isinstance(types, str) else types:
            if name not in TYPES and name not in ("integer", "number"):
                raise SchemaError(f"{where}: unexpected type {name}")
        missing = set(schema.get("required", [])) - set(schema.get("properties", {}))
        if missing:
            raise SchemaError(f"{where}: required, but not in properties: {sorted(missing)}")
        for name, part in schema.get("properties", {}).items():
            self.check_schema(part, f"{where}.{name}")
        for key in ("items", "additionalProperties"):
            if key in schema:
                self.check_schema(schema[key], f"{where} {key}")
        for part in schema.get("oneOf", []):
            self.check_schema(part, where)


def is_type(names, value):
    for name in [names] if isinstance(names, str) else names:
        if name in ("integer", "number"):
            numbers = (int,) if name == "integer" else (int, float)
            if isinstance(value, numbers) and not isinstance(value, bool):
                return True
        elif isinstance(value, TYPES[name]):
            return True
    return False


def check_text(schema, value, where):
    if schema.get("format") == "date-time" and not TIME.fullmatch(value):
        raise SchemaError(f"{where}: {value!r} is not an RFC 3339 time")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise SchemaError(f"{where}: {value!r} does not match {schema['pattern']}")


def only(item, where, required, optional=()):
    if not required <= set(item) <= required | set(optional):
        raise SchemaError(f"{where}: has {sorted(item)}, not {sorted(required)}")
