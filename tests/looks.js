// What a person would find fault with in the page that is open: a list of words, empty without a fault. Evaluated by
// page_looks.rs, which writes the numbers of the standard (WCAG 2.1, AA) for texts and for what is drawn. `wanted` is the
// width of the window in pixels: `screen.width` was that of no window now and then.
(wanted => {
  const faults = [];
  const colour = text => { const found = text.match(/[\d.]+/g).map(Number); return found.length > 3 ? found : [...found.slice(0, 3), 1]; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * x + .7152 * y + .0722 * z;
  };
  const contrast = (a, b) => { const [most, least] = [light(a), light(b)].sort((x, y) => y - x); return (most + .05) / (least + .05); };
  const ground = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.unshift(colour(getComputedStyle(at).backgroundColor));
    return layers.reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const name = element => element.id || element.className || (element.closest("[id]") || {}).id || element.tagName;
  const judge = (what, paint, under, least) => {
    const found = contrast(over(colour(paint), under), under);
    if (!(found >= least)) faults.push(what + ": a contrast of " + found.toFixed(2) + " where " + least + " is the least");
  };

  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const words = walker.currentNode.textContent.trim(), parent = walker.currentNode.parentElement;
    if (!words || parent.closest("script, style, .hidden") || !parent.getClientRects().length) continue;
    const style = getComputedStyle(parent), px = parseFloat(style.fontSize);
    const large = px >= 24 || px >= 18.66 && style.fontWeight >= 700;
    texts += 1;
    judge(name(parent) + " '" + words.slice(0, 30) + "'", parent.closest("svg") ? style.fill : style.color, ground(parent), large ? 3 : 4.5);
  }
  if (texts < 200) faults.push("only " + texts + " texts");
  let drawn = 0;
  for (const line of document.querySelectorAll("svg polyline, svg rect")) {
    const style = getComputedStyle(line);
    drawn += 1;
    judge(name(line.closest("svg")) + ": a " + line.tagName, line.tagName === "rect" ? style.fill : style.stroke, ground(line.closest("svg")), 3);
  }
  for (const key of document.querySelectorAll(".key")) {
    drawn += 1;
    judge("key of " + key.nextSibling.textContent, getComputedStyle(key).backgroundColor, ground(key.parentElement), 3);
  }
  if (drawn < 15) faults.push("only " + drawn + " lines and keys");

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push("the page is " + document.documentElement.scrollWidth + " pixels wide, its window " + width);
  if (innerWidth !== wanted) faults.push("the window was widened from " + wanted + " to " + innerWidth);
  for (const element of document.querySelectorAll("body *")) {
    // A table scrolls in its own frame; what is hidden is for readers of screens.
    if (element.closest(".scroll table, .hidden, svg, #tree")) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > width + .5 || box.left < -.5)) faults.push(name(element) + " reaches from " + box.left + " to " + box.right);
  }
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect(), boxes = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([words, a], index) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1) faults.push(svg.id + ": '" + words + "' is cut off");
      for (const [others, b] of boxes.slice(index + 1))
        if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom) faults.push(svg.id + ": '" + words + "' lies on '" + others + "'");
    });
  }
  // What is touched is as large as a finger wants it (24 pixels), or stands in a line of text.
  for (const element of document.querySelectorAll("nav a, button")) {
    const box = element.getBoundingClientRect();
    if (box.height < 24) faults.push(name(element) + " '" + element.textContent + "' is " + box.height.toFixed(1) + " pixels high");
  }
  return faults;
})
