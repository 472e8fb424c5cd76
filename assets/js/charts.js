/* The interactive view of a figure: <figure data-chart> holding a drawing (.draw) and its ECharts option
   (<script type="application/json">). The drawing stays until the reader asks for the other view.
   Classic script without modules, so that it runs from file://; it fetches nothing but echarts.min.js beside it,
   and runs nothing that comes from an option: {"$fn":"name"} picks a function from the table below. */
(function (root) {
  "use strict";

  function thousands(v) {
    var parts = String(Math.round(v * 1e6) / 1e6).split(".");
    parts[0] = parts[0].replace(/\B(?=(\d{3})+$)/g, "\u202f");
    return parts.join(".");
  }
  function power(v) { var e = Math.log(v) / Math.LN10; return Math.abs(e - Math.round(e)) < 1e-9; }
  function encode(s) {
    return String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;").replace(/'/g, "&#39;");
  }
  var functions = {
    count: thousands,
    decade: function (v) { return power(v) ? thousands(v) : ""; }, // logarithmic axes: the ends are no round numbers
    bytes: function (v) {
      if (!power(v)) return "";
      var units = ["B", "kB", "MB", "GB", "TB"], i = 0;
      while (v >= 1000 && i < units.length - 1) { v /= 1000; i++; }
      return thousands(v) + "\u00a0" + units[i];
    },
    name: function (p) { return encode(p.name || p.seriesName || ""); },
    slice: function (params, api) {
      var a = api.coord([api.value(0), api.value(2)]), b = api.coord([api.value(1), api.value(2)]);
      var height = Math.min(34, api.size([0, 1])[1] * 0.7), c = params.coordSys;
      var left = Math.max(a[0], c.x), right = Math.min(b[0], c.x + c.width);
      if (right < c.x || left > c.x + c.width) return null;
      return { type: "rect", shape: { x: left, y: a[1] - height / 2, width: Math.max(right - left, 0.6), height: height }, style: { fill: api.visual("color") } };
    }
  };

  // revive copies an option; a name that is not in the table is dropped.
  function revive(v, colour) {
    if (Array.isArray(v)) return v.map(function (x) { return revive(x, colour); });
    if (v && typeof v === "object") {
      if (typeof v.$fn === "string") return Object.prototype.hasOwnProperty.call(functions, v.$fn) ? functions[v.$fn] : undefined;
      var out = {};
      Object.keys(v).forEach(function (k) { if (k !== "__proto__") out[k] = revive(v[k], colour); });
      return out;
    }
    return typeof v === "string" && colour && v.slice(0, 4) === "var(" ? colour(v) : v;
  }
  root.rooflabCharts = { revive: revive };
  if (typeof document === "undefined") return;

  var here = (document.currentScript && document.currentScript.src) || "";
  var waiting = null;
  function library(done, fail) {
    if (root.echarts) return done();
    if (waiting) { waiting.push([done, fail]); return; }
    waiting = [[done, fail]];
    var s = document.createElement("script");
    s.src = here.replace(/[^\/]*$/, "") + "echarts.min.js";
    function end(which) { var w = waiting; waiting = null; w.forEach(function (f) { f[which](); }); }
    s.onload = function () { end(0); };
    s.onerror = function () { s.remove(); end(1); };
    document.head.appendChild(s);
  }

  function colours(figure) { // the page's variables as the browser resolves them now; a canvas cannot read them itself
    var probe = document.createElement("span");
    probe.hidden = true;
    figure.appendChild(probe);
    return {
      get: function (v) { probe.style.color = ""; probe.style.color = v; return getComputedStyle(probe).color; },
      end: function () { probe.remove(); }
    };
  }

  var open = [];
  function set(view) {
    var c = colours(view.figure), option = revive(view.option, c.get), style = getComputedStyle(view.figure);
    option.textStyle = { color: style.color, fontFamily: style.fontFamily };
    option.tooltip = Object.assign({ backgroundColor: c.get("var(--panel)"), borderColor: c.get("var(--rule)"), textStyle: { color: style.color, fontSize: 13 } }, option.tooltip);
    c.end();
    view.chart.setOption(option, true);
  }
  function each(f) { open.forEach(f); }
  addEventListener("resize", function () { each(function (v) { v.chart.resize(); }); });
  document.addEventListener("change", function (e) { if (e.target && e.target.name === "theme") each(set); });
  if (root.matchMedia) matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { each(set); });

  function enhance(figure) {
    var source = figure.querySelector('script[type="application/json"]'), draw = figure.querySelector(".draw");
    if (!source || !draw) return;
    var option;
    try { option = JSON.parse(source.textContent); } catch (e) { return; }
    var button = document.createElement("button"), stage = document.createElement("div"), view = null;
    button.type = "button";
    button.className = "explore";
    button.textContent = "Explore";
    button.setAttribute("aria-pressed", "false");
    stage.className = "stage";
    stage.hidden = true;
    draw.after(stage, button);

    function close() {
      open.splice(open.indexOf(view), 1);
      view.chart.dispose();
      view = null;
      stage.hidden = true;
      draw.hidden = false;
      button.textContent = "Explore";
      button.setAttribute("aria-pressed", "false");
    }
    function show() {
      var height = Math.max(draw.clientHeight, 280);
      draw.hidden = true;
      stage.hidden = false;
      stage.style.height = height + "px";
      try {
        view = { figure: figure, option: option, chart: root.echarts.init(stage, null, { renderer: "canvas" }) };
        set(view);
      } catch (e) { // the drawing must not be lost to a broken option
        stage.hidden = true;
        draw.hidden = false;
        button.textContent = "The interactive view cannot be drawn";
        button.disabled = true;
        return;
      }
      open.push(view);
      button.textContent = "Static";
      button.setAttribute("aria-pressed", "true");
    }
    button.addEventListener("click", function () {
      if (view) return close();
      library(show, function () { button.textContent = "echarts.min.js is not beside this page"; button.disabled = true; });
    });
  }
  function start() { Array.prototype.forEach.call(document.querySelectorAll("figure[data-chart]"), enhance); }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})(typeof self !== "undefined" ? self : this);
