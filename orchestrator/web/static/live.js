// What pages do beyond HTML. Without this file all of them work; with it they follow what goes on.
//
// A page says by attributes what it wants:
//   main[data-events=URL]   a stream of server-sent events: the regions are fetched anew when one arrives
//   main[data-again=S]      the regions are fetched anew every S seconds while somebody looks
//   [data-live][id]         a region
//   [data-log]              grows by what a run prints, as its stream tells it
//   [data-step]             the last step that the stream told
//   [data-zoom]             a figure over time: what is drawn across with the mouse is shown in its place; its plotted
//                           area goes from data-left to data-right of its width, and shows data-from to data-to seconds
//   a[data-zoomed]          leads to another stretch of the same: its section is fetched, not the page
"use strict";

const QUIET_MS = 2000; // at least between two looks at the server: a run of events is one change
const SHARE = 20; // and so many times as long as a look takes: the server may measure on the same cores
const LONGEST_LOG = 300000; // signs; older ones go
const main = document.querySelector("main");
let timer = null;
let took = 0; // milliseconds, the last look
let over = false; // what is followed has ended: then there is more of the page than before, and all of it is fetched

function say(text) {
  let place = document.getElementById("live-problem");
  if (!place) {
    place = document.createElement("p");
    place.id = "live-problem";
    place.className = "problem";
    place.setAttribute("role", "status");
    document.querySelector("main").prepend(place);
  }
  place.textContent = text;
  place.hidden = !text;
}

function soon() {
  if (timer === null) {
    timer = setTimeout(() => { timer = null; refresh(); }, Math.max(QUIET_MS, SHARE * took));
  }
}

async function refresh() {
  const begun = performance.now();
  let answer, text;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    text = await answer.text();
    took = performance.now() - begun;
  } catch {
    say("The server does not answer: this page may be out of date.");
    return;
  }
  if (!answer.ok || answer.redirected) {
    say("This page is no longer live: load it again.");
    return;
  }
  say("");
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (over) {
    replace(document.querySelector("main"), document.importNode(fresh.querySelector("main"), true));
    return;
  }
  for (const region of document.querySelectorAll("[data-live][id]")) {
    const instead = fresh.getElementById(region.id);
    if (instead && !region.querySelector("input:focus, select:focus, textarea:focus")) {
      replace(region, document.importNode(instead, true));
    }
  }
  showLast();
}

// What a person has opened stays open, and what has the focus keeps it: the n-th of the region as it was is the n-th of
// the new one.
function replace(old, instead) {
  const opened = instead.querySelectorAll("details");
  old.querySelectorAll("details").forEach((one, place) => {
    if (one.open && opened[place]) {
      opened[place].open = true;
    }
  });
  const reached = "a, button, summary, [tabindex]";
  const focused = [...old.querySelectorAll(reached)].indexOf(document.activeElement);
  old.replaceWith(instead);
  if (focused >= 0) {
    instead.querySelectorAll(reached)[focused]?.focus({ preventScroll: true });
  }
}

// EventSource asks anew after a cut, with the id of the last event that arrived: nothing is left out.
function follow(url) {
  const source = new EventSource(url);
  const log = document.querySelector("[data-log]");
  const step = document.querySelector("[data-step]");
  for (const kind of ["experiment", "run", "waiting", "state"]) {
    source.addEventListener(kind, soon);
  }
  if (log) {
    let begun = false; // the stream begins with the first line, which the page has already
    source.addEventListener("output", (event) => {
      if (!begun) {
        log.textContent = "";
        begun = true;
      }
      append(log, JSON.parse(event.data).data.text);
    });
  }
  if (step) {
    source.addEventListener("interval", (event) => {
      const told = JSON.parse(event.data).data;
      step.textContent = `step ${told.first_step + told.n - 1} (${told.phase})`;
    });
  }
  source.addEventListener("end", () => {
    source.close();
    over = true;
    soon();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      say("This page is no longer live: load it again.");
    }
  });
}

function append(log, text) {
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  log.append(text);
  if (log.textContent.length > LONGEST_LOG) {
    log.textContent = log.textContent.slice(-LONGEST_LOG / 2);
  }
  if (atEnd) {
    log.scrollTop = log.scrollHeight;
  }
}

// Of a board that is wider than the screen the last nights are seen first.
function showLast() {
  for (const board of document.querySelectorAll("#boards .wide")) {
    board.scrollLeft = board.scrollWidth;
  }
}

// Another stretch of a run's time, in the place of the one that is seen. The address follows, so that it can be kept.
let stretch = location.search;

async function look(href) {
  const section = document.getElementById("over-time");
  try {
    const answer = await fetch(href, { headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("over-time");
    if (!answer.ok || !fresh) {
      throw new Error();
    }
    replace(section, document.importNode(fresh, true));
    history.pushState(null, "", href);
    stretch = location.search;
  } catch {
    location.assign(href); // says what is wrong
  }
}

let dragged = null; // {figure, mark, x}: from where

function across(event) {
  const box = dragged.figure.querySelector("img").getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
}

document.addEventListener("pointerdown", (event) => {
  const figure = event.target.closest("[data-zoom]");
  if (figure && event.button === 0 && event.pointerType !== "touch") {
    event.preventDefault();
    dragged = { figure, mark: figure.appendChild(document.createElement("div")) };
    dragged.mark.className = "chosen";
    dragged.x = across(event);
  }
});
document.addEventListener("pointermove", (event) => {
  if (dragged) {
    const width = dragged.figure.querySelector("img").clientWidth;
    const ends = [dragged.x, across(event)].map((part) => part * width);
    dragged.mark.style.left = `${Math.min(...ends)}px`;
    dragged.mark.style.width = `${Math.abs(ends[1] - ends[0])}px`;
  }
});
document.addEventListener("pointerup", (event) => {
  if (!dragged) {
    return;
  }
  const { from, to, left, right } = dragged.figure.dataset;
  const seconds = (part) => Number(from) + (to - from) * Math.min(1, Math.max(0, (part - left) / (right - left)));
  const ends = [dragged.x, across(event)].map(seconds).sort((a, b) => a - b);
  const far = Math.abs(across(event) - dragged.x) > 0.01; // not a mere click
  dragged.mark.remove();
  dragged = null;
  if (far && ends[1] > ends[0]) {
    look(`${location.pathname}?from=${ends[0].toPrecision(9)}&to=${ends[1].toPrecision(9)}#over-time`);
  }
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-zoomed]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    look(link.href);
  }
});
addEventListener("popstate", () => {
  if (location.search !== stretch) {
    location.reload();
  }
});

showLast();
if (main.dataset.events) {
  follow(main.dataset.events);
}
if (main.dataset.again) {
  setInterval(() => { if (!document.hidden) { refresh(); } }, 1000 * main.dataset.again);
}
