// What a reader would see of the page as it stands: colours, what reaches over its edge, what lies on what.
() => {
  const shown = (one) => one.getClientRects().length > 0;
  const rgba = (text) => { const all = text.match(/[\d.]+/g).map(Number); return [...all.slice(0, 3), all[3] ?? 1]; };
  const over = (above, below) => above.slice(0, 3).map((part, place) => part * above[3] + below[place] * (1 - above[3]));
  const common = (a, b) => [
    Math.min(a.right, b.right) - Math.max(a.left, b.left),
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top),
  ];
  const paper = rgba(getComputedStyle(document.body).backgroundColor).slice(0, 3);
  const ground = (one) => {
    if (one === document.documentElement) return paper;
    return over(rgba(getComputedStyle(one).backgroundColor), ground(one.parentElement));
  };
  const words = (one) => [...one.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).join("").trim();
  const scrolls = (one) => {
    for (let up = one; up; up = up.parentElement)
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(up).overflowX)) return true;
    return false;
  };

  const inks = new Map();
  for (const one of document.querySelectorAll("body *")) {
    if (!shown(one) || !words(one)) continue;
    const style = getComputedStyle(one);
    const drawn = one.closest("svg") ? (style.fill === "none" ? style.color : style.fill) : style.color;
    const pair = [over(rgba(drawn), ground(one)), ground(one)];
    inks.set(JSON.stringify(pair), [...pair, words(one).slice(0, 60)]);
  }

  const pictures = [...document.querySelectorAll("figure svg")].filter(shown).map((svg) => {
    const frame = svg.getBoundingClientRect();
    const scale = Math.hypot(svg.getScreenCTM().a, svg.getScreenCTM().b);
    const texts = [...svg.querySelectorAll("text")].filter(shown).map((one) => ({
      words: words(one),
      box: one.getBoundingClientRect(),
      size: parseFloat(getComputedStyle(one).fontSize) * scale,
      title: one.closest("g:has(> title)")?.querySelector("title").textContent ?? "",
    }));
    const lines = [...svg.querySelectorAll("path")].filter((one) => {
      const style = getComputedStyle(one), box = one.getBoundingClientRect();
      const faint = style.stroke === "none" || style.strokeOpacity < 1 || style.opacity < 1 || parseFloat(style.strokeWidth) < 1;
      return shown(one) && !one.closest("defs") && !faint && Math.min(box.width, box.height) < 3;
    }).map((one) => one.getBoundingClientRect());
    return {
      name: svg.getAttribute("class"),
      smallest: Math.min(...texts.map((one) => one.size)),
      outside: texts.filter(({ box }) => box.left < frame.left - 0.5 || box.right > frame.right + 0.5
        || box.top < frame.top - 0.5 || box.bottom > frame.bottom + 0.5).map((one) => one.words),
      touching: texts.flatMap((one, place) => texts.slice(place + 1).filter((other) => {
        const [wide, high] = common(one.box, other.box);
        return wide > 0.5 && high > 2;  // lines of one text may lie a pixel into each other, their letters don't
      }).map((other) => [one.words, other.words])),
      crossed: texts.filter(({ box }) => lines.some((line) => {
        const letters = { left: box.left + 1, right: box.right - 1, top: box.top + 2, bottom: box.bottom - 2 };
        const [wide, high] = common(letters, line);
        return wide >= 0 && high >= 0;
      })).map((one) => one.words),
      cut: texts.filter((one) => one.words.endsWith("…") && !(one.title.length > one.words.length)).map((one) => one.words),
    };
  });

  return {
    width: innerWidth,
    page: document.documentElement.scrollWidth,
    over: [...document.querySelectorAll("body *")].filter((one) => shown(one) && !one.closest("svg")
      && one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one)).map((one) => one.outerHTML.slice(0, 200)),
    paper,
    inks: [...inks.values()],
    pictures,
  };
}
