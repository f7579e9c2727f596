// What makes the pages quicker to use. Everything that matters works without it.
"use strict";

document.documentElement.classList.add("js");

const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

// On a phone the menu and the filters are folded away; without script they stay open.
const narrow = window.matchMedia("(max-width: 60rem)");
for (const folded of all("details.menu, details.fold")) {
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

// <button data-copy="id"> copies the text of the element.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent.trim();
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.dataset.copy));
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

// <section data-live="/path" data-every="5"> is fetched again while the page is visible.
for (const section of all("[data-live]")) {
  const seconds = Number(section.dataset.every || 5);
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(section.dataset.live, { headers: { Accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(String(answer.status));
      section.innerHTML = await answer.text();
      localise(section);
      section.removeAttribute("data-stale");
    } catch {
      section.setAttribute("data-stale", "");
    }
  };
  window.setInterval(refresh, seconds * 1000);
  document.addEventListener("visibilitychange", refresh);
}

// <input type="checkbox" data-all="name"> selects all boxes of that name.
document.addEventListener("change", (event) => {
  const name = event.target.dataset.all;
  if (name) for (const box of all(`input[name="${name}"]`)) box.checked = event.target.checked;
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

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

// Keys for tables with data-triage: j and k move, x selects, o or Enter opens, a letter with data-key on a button acts.
const table = document.querySelector("table[data-triage]");
if (table) {
  const rows = all("tbody tr", table);
  let at = -1;
  const go = (to) => {
    if (rows.length === 0) return;
    rows[at]?.classList.remove("chosen");
    at = Math.max(0, Math.min(rows.length - 1, to));
    rows[at].classList.add("chosen");
    const link = rows[at].querySelector("a");
    link?.focus({ preventScroll: true });
    rows[at].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    if (event.key === "j") go(at + 1);
    else if (event.key === "k") go(at - 1);
    else if (event.key === "x" && at >= 0) {
      const box = rows[at].querySelector("input[type=checkbox]");
      if (box) box.checked = !box.checked;
    } else if (event.key === "o" && at >= 0) rows[at].querySelector("a")?.click();
    else {
      const button = document.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
      if (!button) return;
      const boxes = all("tbody input[type=checkbox]", table);
      if (at >= 0 && !boxes.some((box) => box.checked)) {
        const box = rows[at].querySelector("input[type=checkbox]");
        if (box) box.checked = true;
      }
      button.click();
    }
    event.preventDefault();
  });
}
