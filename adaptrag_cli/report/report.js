"use strict";
// Draws each figure from the JSON beside it, in the colours of the page: light, dark, or paper.
const paper = { ink: "#1a1a1a", line: "#b9bcc3", grid: "#e3e5e9", page: "#ffffff" };
const plots = [...document.querySelectorAll(".plot")];

function screenColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ink: read("ink"), line: read("line"), grid: read("grid"), page: read("page") };
}

function dressing(layout, colours) {
  const settings = {
    "font.color": colours.ink,
    "hoverlabel.bgcolor": colours.page,
    "hoverlabel.bordercolor": colours.line,
    "hoverlabel.font.color": colours.ink,
  };
  for (const name of Object.keys(layout)) {
    if (/^[xy]axis\d*$/.test(name)) {
      Object.assign(settings, {
        [`${name}.gridcolor`]: colours.grid,
        [`${name}.linecolor`]: colours.line,
        [`${name}.zerolinecolor`]: colours.line,
        [`${name}.tickfont.color`]: colours.ink,
      });
    } else if (/^polar\d*$/.test(name)) {
      for (const axis of ["angularaxis", "radialaxis"]) {
        settings[`${name}.${axis}.gridcolor`] = colours.grid;
        settings[`${name}.${axis}.linecolor`] = colours.line;
      }
      settings[`${name}.bgcolor`] = "rgba(0,0,0,0)";
    }
  }
  return settings;
}

function dress(colours, sizeOf) {
  for (const plot of plots) {
    Plotly.relayout(plot, { ...dressing(plot.layout, colours), ...sizeOf(plot) });
    const bars = plot.data.flatMap((trace, number) => (trace.type === "bar" && trace.error_y ? [number] : []));
    if (bars.length) Plotly.restyle(plot, { "error_y.color": colours.ink }, bars);
  }
}

const heights = new Map();
for (const plot of plots) {
  const figure = JSON.parse(document.getElementById(`data-${plot.id}`).textContent);
  heights.set(plot, figure.layout.height);
  Plotly.newPlot(plot, figure.data, figure.layout, { responsive: true, displaylogo: false, displayModeBar: false });
}

const onScreen = (plot) => ({ autosize: true, width: null, height: heights.get(plot) });
const onPaper = (plot) => ({ autosize: false, width: 680, height: 0.8 * heights.get(plot) });
const showOnScreen = () => dress(screenColours(), onScreen);
showOnScreen();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showOnScreen);
addEventListener("beforeprint", () => dress(paper, onPaper));
addEventListener("afterprint", showOnScreen);
