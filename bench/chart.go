package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The measures of the chart, in pixels.
const (
	chartWidth  = 880
	labelWidth  = 330
	barHeight   = 9
	rowGap      = 10
	panelTop    = 52
	panelBottom = 30
	scaleStart  = labelWidth + 10
	scaleWidth  = chartWidth - scaleStart - 30
)

// One colour for each number of clients, from light to dark.
var barColours = []string{"#9ecae1", "#4292c6", "#08519c", "#08306b"}

// chart draws the ratios to the bare driver as an SVG: a panel for each target,
// a row for each way, a bar for each number of clients, and a line from the
// lowest to the highest round.
func (r *results) chart() string {
	type row struct {
		op  op
		way way
	}
	var rows []row
	for o := range opNames {
		for _, w := range ways[op(o)][1:] {
			rows = append(rows, row{op(o), w})
		}
	}
	full := 1.0
	for c := range r.perSecond {
		full = math.Max(full, r.toBare(c).max)
	}
	full = math.Min(math.Ceil(full*10)/10, 2)
	x := func(ratio float64) float64 { return scaleStart + math.Min(ratio, full)/full*scaleWidth }
	rowHeight := len(r.options.clients)*barHeight + rowGap
	panelHeight := panelTop + len(rows)*rowHeight + panelBottom
	height := panelHeight * len(r.targets)

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#222">`+"\n", chartWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", chartWidth, height)
	for p, t := range r.targets {
		top := p * panelHeight
		fmt.Fprintf(&b, `<text x="10" y="%d" font-size="15" font-weight="bold">%s: writes per second, bare driver = 1</text>`+"\n", top+22, html.EscapeString(t.name))
		for i, n := range r.options.clients {
			lx := scaleStart + i*100
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="9" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
				lx, top+33, barColours[i%len(barColours)], lx+17, top+42, clientsText(n))
		}
		bottom := top + panelTop + len(rows)*rowHeight
		for tick := 0.0; tick <= full+0.001; tick += 0.25 {
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle" fill="#666">%.2f</text>`+"\n",
				x(tick), top+panelTop, x(tick), bottom, x(tick), bottom+16, tick)
		}
		for i, row := range rows {
			y := top + panelTop + i*rowHeight + rowGap/2
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s: %s</text>`+"\n",
				labelWidth, y+(rowHeight-rowGap)/2+4, opNames[row.op], html.EscapeString(wayNames[row.way]))
			for k, n := range r.options.clients {
				s := r.toBare(cell{t.name, n, row.op, row.way})
				by := y + k*barHeight
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#222"/>`+"\n",
					scaleStart, by, x(s.median)-scaleStart, barHeight-1, barColours[k%len(barColours)],
					x(s.min), float64(by)+float64(barHeight-1)/2, x(s.max), float64(by)+float64(barHeight-1)/2)
			}
		}
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#222" stroke-dasharray="3 3"/>`+"\n", x(1), top+panelTop, x(1), bottom)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
