// Security keys and passkeys. A button with data-key-make or data-key-use has a key of the browser make or sign something,
// puts the answer into the hidden fields of its form, and sends the form. Without script the other ways stay.
"use strict";

document.documentElement.classList.add("js");
// A button that is for scripts only could not have the focus before.
document.querySelector("button.js-only[autofocus]")?.focus();

(() => {
  const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (each) => each.charCodeAt(0));
  const encode = (buffer) => {
    const text = Array.from(new Uint8Array(buffer), (each) => String.fromCharCode(each)).join("");
    return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const decodeIds = (listed) => (listed || []).map((each) => ({ ...each, id: decode(each.id) }));

  const make = async (options) => {
    const made = await navigator.credentials.create({
      publicKey: {
        ...options,
        challenge: decode(options.challenge),
        user: { ...options.user, id: decode(options.user.id) },
        excludeCredentials: decodeIds(options.excludeCredentials),
      },
    });
    return {
      "key-client-data": encode(made.response.clientDataJSON),
      "key-attestation": encode(made.response.attestationObject),
      "key-transports": (made.response.getTransports?.() || []).join(" "),
    };
  };

  const use = async (form) => {
    const csrf = form.elements.csrf ? { csrf: form.elements.csrf.value } : {};
    const answer = await fetch(form.dataset.keyOptions, { method: "POST", body: new URLSearchParams(csrf), redirect: "error" });
    if (!answer.ok) throw new DOMException("", "TimeoutError");
    const options = await answer.json();
    const found = await navigator.credentials.get({
      publicKey: { ...options, challenge: decode(options.challenge), allowCredentials: decodeIds(options.allowCredentials) },
    });
    return {
      "key-id": encode(found.rawId),
      "key-client-data": encode(found.response.clientDataJSON),
      "key-authenticator-data": encode(found.response.authenticatorData),
      "key-signature": encode(found.response.signature),
    };
  };

  const FAULTS = {
    NotAllowedError: "No key has answered, or it was cancelled. Try again.",
    InvalidStateError: "This key is registered already. Use another one.",
    TimeoutError: "This page was open for too long, or your session has ended. Load it again.",
    SecurityError: "Keys cannot be used at this address.",
  };

  const say = (form, text) => {
    const place = form.querySelector("[data-key-fault]");
    place.textContent = text;
    place.hidden = !text;
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-key-make], [data-key-use]");
    if (!button) return;
    const form = button.form;
    if (!form.reportValidity()) return;
    say(form, "");
    if (!window.PublicKeyCredential) return say(form, "This browser cannot use security keys.");
    if (form.dataset.keyOrigin && form.dataset.keyOrigin !== window.location.origin) {
      return say(form, `Keys can be used at ${form.dataset.keyOrigin} only.`);
    }
    button.disabled = true;
    try {
      const fields = "keyMake" in button.dataset ? await make(JSON.parse(button.dataset.keyMake)) : await use(form);
      for (const [name, value] of Object.entries(fields)) form.elements[name].value = value;
      form.requestSubmit();
    } catch (fault) {
      say(form, FAULTS[fault.name] || "The key could not be used. Try again, or use another way.");
    } finally {
      button.disabled = false;
    }
  });
})();
