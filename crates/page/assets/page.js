"use strict";
// Moves the machine, the table of threads and the cursors of all charts to the time of the slider. Without this script
// the page shows the last moment.
(() => {
  const block = document.getElementById("moments");
  const slider = document.getElementById("moment");
  const opened = () => document.querySelectorAll("details").forEach((one) => { one.open = true; });
  window.addEventListener("beforeprint", opened);
  if (!block || !slider) return;
  const { at, end, threads, memory, sums } = JSON.parse(block.textContent);
  const shown = document.getElementById("shown");
  const places = [...document.querySelectorAll(".machine [data-pu]")];
  const cells = [...document.querySelectorAll("[data-thread]")];
  const cursors = [...document.querySelectorAll(".cursor")];
  // The place since the last change that is not after `point`.
  const place = (changes, point) => {
    let now = null;
    for (const [since, pu] of changes) {
      if (since > point) break;
      now = pu;
    }
    return now;
  };
  const size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    let value = bytes;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return `${unit > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
  };
  const show = (point) => {
    const on = new Map();
    threads.forEach((thread, position) => {
      const pu = place(thread.places, point);
      if (pu !== null) on.set(pu, [...(on.get(pu) ?? []), thread.label]);
      for (const cell of cells) {
        if (Number(cell.dataset.thread) === position) cell.textContent = pu === null ? "–" : `CPU ${pu}`;
      }
    });
    for (const box of places) {
      const here = on.get(Number(box.dataset.pu)) ?? [];
      box.classList.toggle("one", here.length === 1);
      box.classList.toggle("many", here.length > 1);
      box.querySelector(".thread").textContent = here.length > 1 ? `${here.length} ×` : here.join("");
    }
    for (const { node, bytes } of memory) {
      const bar = document.querySelector(`[data-node="${node}"]`);
      if (!bar) continue;
      const now = bytes[point];
      bar.querySelector("rect").setAttribute("width", now === null || !sums[point] ? 0 : (100 * now) / sums[point]);
      bar.querySelector(".bytes").textContent =
        now === null ? "not known" : `${size(now)}, ${sums[point] ? Math.round((100 * now) / sums[point]) : 0} %`;
    }
    const share = `${(100 * at[point]) / end}%`;
    for (const cursor of cursors) {
      cursor.removeAttribute("hidden");
      cursor.setAttribute("x1", share);
      cursor.setAttribute("x2", share);
    }
    const text = `${at[point].toFixed(at[point] < 100 ? 1 : 0)} s`;
    shown.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  slider.closest(".time").hidden = false;
  show(Number(slider.value));
})();
