// What makes the pages quicker to use. Everything that matters works without it.
"use strict";

document.documentElement.classList.add("js");

const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

// On a phone the menu and the filters are folded away; without script they stay open.
const narrow = window.matchMedia("(max-width: 60rem)");
for (const folded of all("details.menu, details.fold:not(.found)")) {
  const fold = () => { folded.open = !narrow.matches; };
  fold();
  narrow.addEventListener("change", fold);
}

// Times are written in UTC; the local time is a hover away.
const localise = (root) => {
  for (const element of all("time[datetime]", root)) {
    const date = new Date(element.dateTime);
    if (!Number.isNaN(date.valueOf())) element.title = date.toLocaleString();
  }
};
localise(document);

// What a screen reader is to say.
const announce = (text) => {
  let said = document.getElementById("announced");
  if (!said) {
    said = document.createElement("p");
    said.id = "announced";
    said.className = "hidden";
    said.setAttribute("role", "status");
    document.body.append(said);
  }
  said.textContent = text;
};

// <button data-copy="id"> copies the text of the element.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.innerText.trim());
    button.textContent = "Copied";
    announce("Copied");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    button.textContent = "Selected: press Ctrl+C";
  }
});

// <form data-confirm="…"> asks before it is sent.
document.addEventListener("submit", (event) => {
  const asker = event.submitter?.dataset.confirm ? event.submitter : event.target;
  if (asker.dataset.confirm && !window.confirm(asker.dataset.confirm)) event.preventDefault();
});

// A part of the page is replaced by its next version: what was open stays open, and the focus stays where it was.
const replace = (section, html) => {
  const kinds = "details, summary, a[href], button, [tabindex]";
  const open = all("details", section).map((each) => each.open);
  const name = (each) => `${each.tagName} ${each.textContent.trim()}`;
  const before = all(kinds, section);
  const at = before.indexOf(document.activeElement);
  const said = at >= 0 ? name(before[at]) : "";
  section.innerHTML = html;
  all("details", section).forEach((each, index) => { if (open[index] !== undefined) each.open = open[index]; });
  // Others may have come before it: what has the same words has the focus, else what stands in the same place.
  const after = all(kinds, section);
  if (at >= 0) (after.find((each) => name(each) === said) || after[at])?.focus({ preventScroll: true });
  localise(section);
};

// <section data-live="/path" data-every="5"> is fetched again while the page is visible; a page that is out of date says so.
for (const section of all("[data-live]")) {
  const seconds = Number(section.dataset.every || 5);
  const refresh = async () => {
    if (document.hidden) return;
    const stale = document.querySelector("[data-stale-notice]");
    try {
      const answer = await fetch(section.dataset.live, { headers: { Accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(String(answer.status));
      replace(section, await answer.text());
      section.removeAttribute("data-stale");
      if (stale) stale.hidden = true;
      if (section.querySelector("[data-finished]")) window.location.reload();
    } catch {
      section.setAttribute("data-stale", "");
      if (stale && stale.hidden) {
        stale.querySelector("[data-stale-since]").textContent = new Date().toLocaleTimeString();
        stale.hidden = false;
      }
    }
  };
  window.setInterval(refresh, seconds * 1000);
  document.addEventListener("visibilitychange", refresh);
}

// A bar of a chart leads to its messages; the table behind the chart has the same links for the keyboard.
document.addEventListener("click", (event) => {
  const bar = event.target.closest("svg [data-href]");
  if (bar) window.location.assign(bar.dataset.href);
});

// <input data-search="/path"> says what is wrong with its text, and what can be written next: a combobox (WAI-ARIA 1.2).
for (const field of all("input[data-search]")) {
  const options = document.createElement("ul");
  options.id = "q-options";
  options.hidden = true;
  options.setAttribute("role", "listbox");
  field.parentElement.append(options);
  field.setAttribute("role", "combobox");
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-controls", "q-options");
  let chosen = -1;
  let asked = 0;
  const list = () => document.getElementById("q-options");
  const open = (on) => {
    list().hidden = !on;
    field.setAttribute("aria-expanded", String(on));
    if (!on) { chosen = -1; field.removeAttribute("aria-activedescendant"); }
  };
  open(false);
  const choose = (to) => {
    const rows = all("li", list());
    chosen = (to + rows.length) % rows.length;
    rows.forEach((row, index) => row.setAttribute("aria-selected", String(index === chosen)));
    rows[chosen].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", rows[chosen].id);
  };
  const take = (row) => {
    field.setRangeText(row.dataset.text, Number(row.dataset.from), Number(row.dataset.to), "end");
    open(false);
    field.focus();
    if (/[:>]$/.test(row.dataset.text)) ask();
  };
  const ask = async () => {
    const turn = asked += 1;
    const query = new URLSearchParams({ path: field.dataset.search, q: field.value, at: String(field.selectionStart ?? field.value.length) });
    try {
      const answer = await fetch(`/searches/hint?${query}`, { headers: { Accept: "text/html" }, redirect: "error" });
      if (!answer.ok || turn !== asked) return;
      const parts = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fault = parts.getElementById("q-fault");
      // A term that is being written is not told to be wrong while something can complete it.
      const fresh = parts.getElementById("q-options");
      if (fresh.children.length > 0 || document.activeElement !== field) fault.removeAttribute("role");
      document.getElementById("q-fault").replaceWith(fault);
      field.setAttribute("aria-invalid", String(!fault.hidden));
      list().replaceWith(fresh);
      chosen = -1;
      open(fresh.children.length > 0 && document.activeElement === field);
    } catch {
      open(false);
    }
  };
  let waiting = 0;
  field.addEventListener("input", () => { window.clearTimeout(waiting); waiting = window.setTimeout(ask, 120); });
  field.addEventListener("blur", () => window.setTimeout(() => open(false), 150));
  field.addEventListener("keydown", (event) => {
    const isOpen = !list().hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (isOpen) choose(chosen + (event.key === "ArrowDown" ? 1 : chosen < 0 ? 0 : -1));
      else ask();
      event.preventDefault();
    } else if (isOpen && event.key === "Escape") {
      open(false);
      event.preventDefault();
    } else if (isOpen && (event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
      take(all("li", list())[chosen]);
      event.preventDefault();
    }
  });
  field.parentElement.addEventListener("mousedown", (event) => {
    const row = event.target.closest("li[role=option]");
    if (row) { event.preventDefault(); take(row); }
  });
}

// <input type="checkbox" data-all="name"> selects all boxes of that name.
document.addEventListener("change", (event) => {
  const name = event.target.dataset.all;
  if (name) for (const box of all(`input[name="${name}"]`)) box.checked = event.target.checked;
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  if (event.target.matches("input[type=file]")) event.target.setCustomValidity("");
});

// A part of a page that is chosen says so in its tab; which one is shown is up to the address, also without script.
const mark = () => {
  const shown = document.querySelector(".tab:target, .tab:has(:target)")?.id;
  all('.tabs a[href^="#"]').forEach((tab, index) => {
    if (shown ? tab.hash === `#${shown}` : index === 0) tab.setAttribute("aria-current", "true");
    else tab.removeAttribute("aria-current");
  });
};
window.addEventListener("hashchange", mark);
mark();

// A link to a form leads to its first field.
const enter = () => {
  const section = window.location.hash.length > 1 && document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
  if (section && section.matches("section")) section.querySelector("textarea, input:not([type=hidden])")?.focus();
};
window.addEventListener("hashchange", enter);
// A browser that goes to a fragment takes the focus away from everything else once the page is loaded.
window.addEventListener("load", () => window.requestAnimationFrame(enter));
enter();

// <div class="drop"> takes a file that is dropped on it.
const dropping = (root) => {
  for (const zone of all(".drop", root)) {
    const input = zone.querySelector("input[type=file]");
    const over = (on) => (event) => { event.preventDefault(); zone.classList.toggle("over", on); };
    zone.addEventListener("dragover", over(true));
    zone.addEventListener("dragleave", over(false));
    zone.addEventListener("drop", (event) => {
      over(false)(event);
      if (event.dataTransfer.files.length === 0) return;
      input.files = event.dataTransfer.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    });
  }
};
dropping(document);

// The answer to a form that was sent in the background; a file that it asks for again (data-keep) is still chosen.
const show = (text, files) => {
  const main = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  document.querySelector("main").replaceWith(main);
  const input = main.querySelector("input[type=file][data-keep]");
  if (input) input.files = files;
  localise(main);
  dropping(main);
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
};

// <form data-progress> shows how much of its file is sent, and then, where the answer begins with percents, is done.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const files = form.querySelector("input[type=file]")?.files;
  if (event.defaultPrevented || !form.matches("[data-progress]") || !files?.length) return;
  event.preventDefault();
  const bar = form.querySelector("progress") || form.appendChild(document.createElement("progress"));
  const step = (label, done, whole) => { bar.setAttribute("aria-label", label); bar.max = whole; bar.value = done; };
  bar.hidden = false;
  const request = new XMLHttpRequest();
  const watched = () => request.getResponseHeader("Content-Type")?.startsWith("text/x-progress");
  request.upload.addEventListener("progress", (sent) => {
    if (sent.lengthComputable) step("Sent", sent.loaded, sent.total);
  });
  request.upload.addEventListener("load", () => bar.removeAttribute("value"));
  request.addEventListener("progress", () => {
    const percent = watched() && request.responseText.split("<", 1)[0].trim().split("\n").at(-1);
    if (percent) step("Done", Number(percent), 100);
  });
  request.addEventListener("load", () => {
    if (request.responseURL && !request.responseURL.endsWith(form.getAttribute("action"))) {
      window.location.assign(request.responseURL);
    } else if (watched()) {
      show(request.responseText.slice(request.responseText.indexOf("<!doctype")), files);
    } else show(request.responseText, files);
  });
  request.addEventListener("error", () => form.submit());
  request.open("POST", form.action);
  request.setRequestHeader("Accept", "text/x-progress, text/html");
  request.send(new FormData(form));
  for (const button of all("button", form)) button.disabled = true;
});

// Keys of pages: a letter with data-key on a button or link acts, / goes to the search field. In tables with data-triage
// j and k move, x selects, o opens. The row is remembered for as long as the tab is open, so that no action loses the place.
const table = document.querySelector("table[data-triage]");
const rows = table ? all("tbody tr", table) : [];
const boxes = table ? all("tbody input[type=checkbox]", table) : [];
// The page says what the list is called: addresses with fields of older forms are the same list.
const place = `row of ${table?.dataset.triage || window.location.pathname + window.location.search}`;
let at = -1;
const go = (to) => {
  if (rows.length === 0) return;
  rows[at]?.classList.remove("chosen");
  at = Math.max(0, Math.min(rows.length - 1, to));
  rows[at].classList.add("chosen");
  window.sessionStorage.setItem(place, String(at));
  rows[at].querySelector("a")?.focus({ preventScroll: true });
  rows[at].scrollIntoView({ block: "nearest" });
};
const count = () => {
  const said = document.querySelector("[data-selected]");
  if (said) said.textContent = `${boxes.filter((box) => box.checked).length} selected`;
};
if (table) {
  const kept = window.sessionStorage.getItem(place);
  if (kept !== null && rows.length > 0 && !window.location.hash) go(Number(kept));
  let last = null;
  table.addEventListener("click", (event) => {
    const box = boxes.indexOf(event.target);
    if (box < 0) return;
    if (event.shiftKey && last !== null) {
      for (let each = Math.min(box, last); each <= Math.max(box, last); each += 1) boxes[each].checked = event.target.checked;
    }
    last = box;
  });
  document.addEventListener("change", count);
  table.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && boxes.includes(event.target)) event.preventDefault();
  });
}
// Keys of one letter get into the way of speech input, so a user can switch them off (WCAG 2.1.4), in this browser.
const shortcuts = {
  get on() { return window.localStorage.getItem("shortcuts") !== "off"; },
  set on(value) { window.localStorage.setItem("shortcuts", value ? "on" : "off"); },
};
const keySwitch = document.querySelector("input[data-shortcuts]");
if (keySwitch) {
  keySwitch.checked = shortcuts.on;
  keySwitch.addEventListener("change", () => { shortcuts.on = keySwitch.checked; });
}
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-keys]")) document.getElementById("keys").showModal();
});
document.addEventListener("keydown", (event) => {
  if (!shortcuts.on || document.querySelector("dialog[open]")) return;
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  if (event.key === "/") document.getElementById("q")?.select();
  else if (event.key === "?") document.getElementById("keys")?.showModal();
  else if (table && event.key === "j") go(at + 1);
  else if (table && event.key === "k") go(at < 0 ? 0 : at - 1);
  else if (table && event.key === "x" && at >= 0) {
    const box = rows[at].querySelector("input[type=checkbox]");
    if (box) box.checked = !box.checked;
    count();
  } else if (table && event.key === "o" && at >= 0) rows[at].querySelector("a")?.click();
  else {
    const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!button) return;
    if (at >= 0 && !boxes.some((box) => box.checked)) {
      const box = rows[at].querySelector("input[type=checkbox]");
      if (box) box.checked = true;
    }
    button.click();
  }
  event.preventDefault();
});
