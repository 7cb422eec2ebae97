// The pages' only script. Without it pages still tell everything; with it they stay up to date.
"use strict";

const part = (url, options = {}) =>
  fetch(url, { ...options, headers: { "X-Part": "1", ...(options.headers || {}) } });

// A token behind # never leaves the browser: `fedforest demo --open` hands it over this way.
function enterByFragment() {
  const form = document.getElementById("login");
  const word = location.hash.slice(1);
  if (!form || !word.startsWith("fft_")) return;
  history.replaceState(null, "", location.pathname);
  form.elements.token.value = word;
  form.submit();
}

// Replace a part without moving the reader: open details and the focus stay.
function replacePart(target, html) {
  const open = [...target.querySelectorAll("details[open]")].map((each) => each.dataset.key || "");
  const focus = document.activeElement && target.contains(document.activeElement)
    ? document.activeElement.id : "";
  const scrolls = [...target.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  target.replaceChildren(fresh.content);
  target.querySelectorAll("details").forEach((each) => {
    if (each.dataset.key && open.includes(each.dataset.key)) each.open = true;
  });
  target.querySelectorAll(".scroll").forEach((each, n) => { each.scrollLeft = scrolls[n] || 0; });
  if (focus) document.getElementById(focus)?.focus();
}

function sayState(text) {
  let line = document.getElementById("connection");
  if (!line) {
    line = document.createElement("p");
    line.id = "connection";
    line.setAttribute("role", "status");
    document.querySelector("main header")?.after(line);
  }
  line.textContent = text;
  line.hidden = !text;
}

// Parts that are asked for again every few seconds while the page is looked at.
function refreshParts() {
  document.querySelectorAll("[data-refresh]").forEach((target) => {
    const seconds = Number(target.dataset.every) || 5;
    const look = async () => {
      if (!document.hidden && !target.contains(document.activeElement?.closest("form"))) {
        try {
          const answer = await part(target.dataset.refresh + location.search);
          if (answer.status === 401) return location.assign("/login");
          if (answer.ok) replacePart(target, await answer.text());
          sayState("");
        } catch {
          sayState("The server does not answer; trying again.");
        }
      }
      setTimeout(look, seconds * 1000);
    };
    setTimeout(look, seconds * 1000);
  });
}

// A run that is under way: the server sends its part whenever there is news.
function followRun() {
  const target = document.querySelector("[data-live]");
  if (!target) return;
  const source = new EventSource(target.dataset.live);
  source.addEventListener("part", (event) => replacePart(target, JSON.parse(event.data)));
  source.addEventListener("over", () => { source.close(); location.reload(); });
  source.addEventListener("error", () => sayState("The line broke; trying again."));
  source.addEventListener("open", () => sayState(""));
  addEventListener("pagehide", () => source.close());
}

function confirmActions() {
  document.addEventListener("submit", (event) => {
    const text = event.target.dataset?.confirm;
    if (text && !confirm(text)) event.preventDefault();
  });
}

// A form that is checked while it is written.
function checkForms() {
  document.querySelectorAll("form[data-check]").forEach((form) => {
    const target = document.getElementById(form.dataset.target);
    let timer = 0, asked = 0;
    const check = async () => {
      const number = ++asked;
      const body = new URLSearchParams(new FormData(form));
      try {
        const answer = await part(form.dataset.check, { method: "POST", body });
        if (answer.status === 401) return location.assign("/login");
        if (number === asked) replacePart(target, await answer.text());
        sayState("");
      } catch {
        sayState("The server does not answer; trying again.");
      }
    };
    const later = () => { clearTimeout(timer); timer = setTimeout(check, 350); };
    const show = () => form.querySelectorAll("[data-when]").forEach((each) => {
      const [name, values] = each.dataset.when.split("=");
      const now = new FormData(form).get(name) || "";
      each.hidden = !values.split("|").includes(now);
    });
    form.addEventListener("input", () => { show(); later(); });
    form.addEventListener("change", () => { show(); later(); });
    show();
    check();
  });
}

enterByFragment();
refreshParts();
followRun();
confirmActions();
checkForms();
