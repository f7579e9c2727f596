"""The page of pools and models: who sees what, and the way back."""

from typing import Any

import msgspec
from tests.web.conftest import DELIVERED

from gatepost.learning.sealed_training import Proof, Side
from gatepost.store.audit import CLI
from gatepost.store.learning import ModelLookBack, TaughtMessage

FIGURES = msgspec.json.encode(
    Proof(200, 100, 100, Side(20, 18, 20, 0, 0.3), Side(20, 0, 20, 0), 174, reason="<better>")
)


def test_pools_and_models_are_shown_and_rolled_back(site: Any, tenant: str) -> None:
    store = site.store
    site.run(store.learning.add_reports(tenant, CLI, [TaughtMessage("m", b"\x01\x00")], unwanted=True))
    first = site.run(store.learning.keep_model(tenant, FIGURES, b"one", CLI))
    second = site.run(store.learning.keep_model(tenant, FIGURES, b"two", CLI))
    ggrid = site.message(tenant, msgspec.structs.replace(DELIVERED, subject="Your <b>offer</b>"))
    site.run(store.look_backs.record_of_model(second, ModelLookBack(7, 10, 1, (ggrid,))))
    visitor = site.visitor(tenant=tenant)
    page = visitor.get("/learning").text
    assert f"Model {second}" in page
    assert "18 of 20, 0 before" in page
    assert "&lt;better&gt;" in page
    assert page.count("takes part</span>") == 1
    detail = visitor.get(f"/learning/{second}").text
    assert "would have held 1" in detail
    assert "Your &lt;b&gt;offer&lt;/b&gt;" in detail
    assert "bob@" in detail
    answer = visitor.post(f"/learning/{second}/rollback", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/learning")
    assert "The model is withdrawn." in visitor.get("/learning").text
    assert site.run(store.learning.current_models())[tenant] == first
    answer = visitor.post(f"/learning/{second}/rollback", {})
    assert answer.headers["location"] == "/learning"
    assert "nothing was changed" in visitor.get("/learning").text


def test_a_tenant_sees_its_own_and_an_auditor_changes_nothing(site: Any, tenant: str) -> None:
    version = site.run(site.store.learning.keep_model(tenant, FIGURES, b"one", CLI))
    assert f"Model {version}<" not in site.visitor(tenant=site.new_tenant()).get("/learning").text
    auditor = site.visitor("auditor", tenant=tenant)
    assert "Roll back" not in auditor.get("/learning").text
    for wrong in ("x", "9" * 30, "0"):
        assert auditor.get(f"/learning/{wrong}").status_code == 404
