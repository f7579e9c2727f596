from gatepost.abby.app import render_docs
from gatepost.api.openapi import SCANNING, document

DOCUMENT = document(SCANNING)
PAGE = bytes(render_docs([DOCUMENT]).body).decode()


def test_every_operation_type_and_code_is_shown() -> None:
    for path, methods in DOCUMENT["paths"].items():
        assert path in PAGE
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in PAGE
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f'id="type-{name}"' in PAGE
        for field in schema.get("properties", ()):
            assert f"<code>{field}</code>" in PAGE
    for code in DOCUMENT["components"]["schemas"]["Error"]["properties"]["error"]["x-extensible-enum"]:
        assert f"<code>{code}</code>" in PAGE


def test_text_of_the_document_is_text() -> None:
    hostile = document(SCANNING)
    hostile["info"]["title"] = "<script>alert(1)</script>"
    hostile["info"]["description"] = '`<b>` "x"'
    page = bytes(render_docs([hostile]).body).decode()
    assert "<script" not in page
    assert "<code>&lt;b&gt;</code>" in page
