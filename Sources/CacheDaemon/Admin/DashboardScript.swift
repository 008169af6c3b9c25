// The dashboard's script: Scripts/embed-dashboard writes this file from web/dashboard.js. Change that one.

/// The dashboard's script.
enum DashboardScript {
    static let text = ##"""
        // The dashboard: asks /stats.json every second and draws what it says. No library, no request to anybody else.
        "use strict";

        const KEPT_MS = 600000;
        const state = { columns: [], rows: [], seconds: 300, last: null };

        // ---- Text --------------------

        function bytes(value) {
          const units = ["B", "KiB", "MiB", "GiB", "TiB"];
          let unit = 0;
          while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
          return (unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)) + " " + units[unit];
        }
        function count(value) {
          if (value >= 1e9) return (value / 1e9).toFixed(2) + " G";
          if (value >= 1e6) return (value / 1e6).toFixed(2) + " M";
          if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
          return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
        }
        function time(us) {
          if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
          if (us >= 1e3) return (us / 1e3).toFixed(us >= 1e5 ? 0 : 1) + " ms";
          return us.toFixed(us >= 100 ? 0 : 1) + " µs";
        }
        function percent(value) { return (value * 100).toFixed(1) + " %"; }
        function span(seconds) {
          const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24;
          const minutes = Math.floor(seconds / 60) % 60;
          if (days > 0) return days + " d " + hours + " h";
          if (hours > 0) return hours + " h " + minutes + " min";
          return minutes > 0 ? minutes + " min " + seconds % 60 + " s" : seconds + " s";
        }

        // ---- Elements --------------------

        function element(name, parent, text, kind) {
          const made = document.createElement(name);
          if (text !== undefined) made.textContent = text;
          if (kind) made.className = kind;
          if (parent) parent.append(made);
          return made;
        }
        function drawn(name, parent, attributes) {
          const made = document.createElementNS("http://www.w3.org/2000/svg", name);
          for (const key in attributes) made.setAttribute(key, attributes[key]);
          parent.append(made);
          return made;
        }

        // ---- Series --------------------

        function column(name) { return state.columns.indexOf(name); }
        function shown() {
          const end = state.rows.length ? state.rows[state.rows.length - 1][0] : 0;
          return state.rows.filter(row => row[0] >= end - state.seconds * 1000);
        }
        function level(name) {
          return rows => {
            const at = column(name);
            return rows.map(row => [row[0], row[at]]);
          };
        }
        function rate(...names) {
          return rows => {
            const at = names.map(column), points = [];
            for (let i = 1; i < rows.length; i += 1) {
              const seconds = (rows[i][0] - rows[i - 1][0]) / 1000;
              const growth = at.reduce((sum, c) => sum + rows[i][c] - rows[i - 1][c], 0);
              if (seconds > 0 && growth >= 0) points.push([rows[i][0], growth / seconds]);
            }
            return points;
          };
        }
        // Shares of lookups over the last few seconds, so that a quiet second is no gap.
        function share(...names) {
          const width = 5;
          return rows => {
            const at = names.map(column), all = ["memory_hits", "disk_hits", "misses"].map(column), points = [];
            for (let i = 1; i < rows.length; i += 1) {
              const from = rows[Math.max(0, i - width)];
              const lookups = all.reduce((sum, c) => sum + rows[i][c] - from[c], 0);
              const part = at.reduce((sum, c) => sum + rows[i][c] - from[c], 0);
              points.push([rows[i][0], lookups > 0 ? part / lookups : null]);
            }
            return points;
          };
        }

        const charts = [
          { id: "hit-ratio", title: "Hit ratio by tier", text: percent, top: 1, series: [
            { name: "memory", points: share("memory_hits"), area: true },
            { name: "memory + disk", points: share("memory_hits", "disk_hits"), area: true } ] },
          { id: "operations", title: "Operations per second", text: count, series: [
            { name: "lookups", points: rate("memory_hits", "disk_hits", "misses") },
            { name: "sets", points: rate("sets") }, { name: "deletes", points: rate("deletes") } ] },
          { id: "latency-chart", title: "Latency in the server (log scale)", text: time, log: true, series: [
            { name: "p50", points: level("p50_us") }, { name: "p99", points: level("p99_us") },
            { name: "p99.9", points: level("p999_us") } ] },
          { id: "memory", title: "Memory against its limit", text: bytes, limit: s => s.memory.limit_bytes, series: [
            { name: "memory", points: level("memory_bytes"), area: true } ] },
          { id: "disk", title: "Disk against its limit", text: bytes, limit: s => s.disk && s.disk.limit_bytes,
            series: [
            { name: "disk", points: level("disk_bytes"), area: true },
            { name: "journal waiting", points: level("journal_used_bytes") } ] },
          { id: "evictions", title: "Evictions per second", text: count, series: [
            { name: "memory", points: rate("evictions") }, { name: "disk", points: rate("disk_evictions") } ] },
          { id: "disk-traffic", title: "Values written to and read from disk", text: v => bytes(v) + "/s", series: [
            { name: "written", points: rate("disk_written_bytes") },
            { name: "read", points: rate("disk_read_bytes") } ] },
          { id: "network", title: "Network", text: v => bytes(v) + "/s", series: [
            { name: "received", points: rate("received_bytes") }, { name: "sent", points: rate("sent_bytes") } ] },
          { id: "connections", title: "Connections", text: count, series: [
            { name: "connections", points: level("connections") } ] },
        ];

        // ---- Charts --------------------

        const box = { width: 440, height: 160, left: 66, right: 8, top: 8, bottom: 20 };

        function scale(chart, lists, limit) {
          let high = limit || chart.top || 0, low = Infinity;
          for (const list of lists) for (const [, value] of list) {
            if (value === null) continue;
            high = Math.max(high, value);
            if (value > 0) low = Math.min(low, value);
          }
          if (chart.log) {
            const bottom = Math.floor(Math.log10(low === Infinity ? 1 : low));
            const top = Math.max(bottom + 1, Math.ceil(Math.log10(high || 10)));
            const ticks = [];
            for (let power = bottom; power <= top; power += 1) ticks.push(Math.pow(10, power));
            return { ticks, at: v => (Math.log10(Math.max(v, 1e-9)) - bottom) / (top - bottom) };
          }
          if (chart.top) high = chart.top; else high = high > 0 ? high * 1.08 : 1;
          return { ticks: [0, 0.5, 1].map(part => part * high), at: v => v / high };
        }

        function drawChart(chart) {
          const rows = shown(), svg = chart.svg;
          svg.replaceChildren();
          const limit = chart.limit && state.last ? chart.limit(state.last) : null;
          const lists = chart.series.map(series => series.points(rows));
          const axis = scale(chart, lists, limit);
          const end = rows.length ? rows[rows.length - 1][0] : 0, start = end - state.seconds * 1000;
          const width = box.width - box.left - box.right, height = box.height - box.top - box.bottom;
          const x = t => (box.left + (t - start) / (end - start || 1) * width).toFixed(1);
          const y = v => (box.top + (1 - Math.min(Math.max(axis.at(v), 0), 1)) * height).toFixed(1);
          for (const tick of axis.ticks) {
            drawn("line", svg, { class: "grid", x1: box.left, x2: box.width - box.right, y1: y(tick), y2: y(tick) });
            const label = drawn("text", svg, { x: box.left - 6, y: +y(tick) + 4, "text-anchor": "end" });
            label.textContent = chart.text(tick);
          }
          for (const part of [0, 0.5, 1]) {
            const label = drawn("text", svg, {
              x: box.left + part * width, y: box.height - 5, "text-anchor": ["start", "middle", "end"][part * 2] });
            label.textContent = new Date(start + part * (end - start)).toLocaleTimeString([], { hour12: false });
          }
          if (limit) drawn("line", svg, {
            class: "limit", x1: box.left, x2: box.width - box.right, y1: y(limit), y2: y(limit) });
          lists.forEach((list, index) => drawSeries(chart, list, index, x, y));
          drawLegend(chart, lists);
        }

        function drawSeries(chart, list, index, x, y) {
          let path = "", open = false, first = null, last = null;
          for (const [t, value] of list) {
            if (value === null) { open = false; continue; }
            path += (open ? "L" : "M") + x(t) + " " + y(value);
            if (first === null) first = t;
            last = t;
            open = true;
          }
          if (!path) return;
          if (chart.series[index].area) drawn("path", chart.svg, {
            class: "area f" + (index + 1), d: path + "L" + x(last) + " " + y(0) + "L" + x(first) + " " + y(0) + "Z" });
          drawn("path", chart.svg, { class: "s" + (index + 1), d: path });
        }

        function drawLegend(chart, lists) {
          chart.legend.replaceChildren();
          chart.series.forEach((series, index) => {
            const entry = element("span", chart.legend);
            element("i", entry, "", "c" + (index + 1));
            entry.append(series.name + " ");
            const values = lists[index].filter(point => point[1] !== null);
            element("b", entry, values.length ? chart.text(values[values.length - 1][1]) : "-");
          });
        }

        function buildCharts() {
          for (const chart of charts) {
            const card = element("div", document.getElementById("charts"), undefined, "card");
            card.id = chart.id;
            element("h2", card, chart.title);
            chart.svg = drawn("svg", card, {
              viewBox: "0 0 " + box.width + " " + box.height, role: "img", "aria-label": chart.title });
            chart.legend = element("div", card, undefined, "legend");
          }
        }

        // ---- Figures and tables --------------------

        function fillTiles(stats) {
          const tiles = document.getElementById("tiles");
          const now = stats.windows["10s"] || {}, five = stats.windows["5m"] || {};
          const hits = w => w.memory_hit_ratio === undefined ? "-" : percent(w.memory_hit_ratio + w.disk_hit_ratio);
          const figures = [
            [hits(now), "hit ratio, 10 s"], [hits(five), "hit ratio, 5 min"],
            [count(now.commands_per_second || 0), "commands/s"],
            [count(stats.memory.entries), "entries in memory"],
            [stats.disk ? count(stats.disk.entries) : "-", "entries on disk"],
            [bytes(stats.memory.bytes),
              "of " + (stats.memory.limit_bytes ? bytes(stats.memory.limit_bytes) : "no limit") + " memory"],
            [stats.disk ? bytes(stats.disk.bytes) : "-", stats.disk ? "of " + bytes(stats.disk.limit_bytes) + " disk"
              : "no disk tier"],
            [bytes(stats.resident_bytes), "resident"],
            [count(stats.connections), "of " + count(stats.connections_max) + " connections"],
          ];
          tiles.replaceChildren();
          for (const [value, label] of figures) {
            const tile = element("div", tiles, undefined, "tile");
            element("b", tile, value);
            element("span", tile, label);
          }
        }

        function fillTable(id, rows, empty) {
          const body = document.querySelector("#" + id + " tbody");
          body.replaceChildren();
          if (!rows.length) element("td", element("tr", body), empty).colSpan = 6;
          for (const cells of rows) {
            const row = element("tr", body);
            for (const cell of cells) element("td", row, String(cell));
          }
        }

        function fillTables(stats) {
          fillTable("latency", stats.latency.map(entry => [
            entry.command, entry.outcome.replaceAll("_", " "), count(entry.count), time(entry.p50_us),
            time(entry.p99_us), time(entry.p999_us) ]), "no requests yet");
          fillTable("hot", (stats.hot || []).slice(0, 12).map(entry => [entry.key, count(entry.per_second)]),
            stats.hot ? "none stands out" : "not shown: dump_commands is off");
          fillTable("slow", (stats.slow || []).slice(0, 12).map(entry => [
            new Date(entry.time_ms).toLocaleTimeString([], { hour12: false }), time(entry.took_us), entry.place,
            entry.command + (entry.requests > 1 ? " of " + entry.requests : ""), entry.key ]), "none");
        }

        function fillHeader(stats) {
          const badge = document.getElementById("state"), disk = document.getElementById("disk-state");
          badge.textContent = stats.state;
          badge.className = "badge " + (stats.state === "serving" ? "good" : "bad");
          disk.textContent = stats.disk ? "disk " + stats.disk.state : "no disk tier";
          disk.className = "badge " + (!stats.disk ? "" : stats.disk.state === "ok" ? "good" : "bad");
          const error = stats.disk && stats.disk.last_error ? " · last error: " + stats.disk.last_error : "";
          const work = (stats.work || []).map(words => " · " + words).join("");
          document.getElementById("about").textContent =
            "version " + stats.version + " · up " + span(stats.uptime_seconds) + work + error;
        }

        // ---- The clock --------------------

        async function refresh() {
          const last = state.rows.length ? "?since=" + state.rows[state.rows.length - 1][0] : "";
          try {
            const answer = await fetch("stats.json" + last, { cache: "no-store" });
            const stats = await answer.json();
            // A restart begins a new history.
            if (state.last && stats.uptime_seconds < state.last.uptime_seconds) state.rows = [];
            state.last = stats;
            state.columns = stats.history_columns;
            state.rows = state.rows.concat(stats.history);
            const end = state.rows.length ? state.rows[state.rows.length - 1][0] : 0;
            state.rows = state.rows.filter(row => row[0] > end - KEPT_MS);
            fillHeader(stats);
            fillTiles(stats);
            fillTables(stats);
            charts.forEach(drawChart);
            document.body.dataset.samples = state.rows.length;
          } catch (error) {
            const badge = document.getElementById("state");
            badge.textContent = "no answer";
            badge.className = "badge bad";
          }
          setTimeout(refresh, 1000);
        }

        for (const button of document.querySelectorAll("#ranges button")) {
          button.addEventListener("click", () => {
            for (const other of document.querySelectorAll("#ranges button")) {
              other.classList.toggle("chosen", other === button);
            }
            state.seconds = Number(button.dataset.seconds);
            charts.forEach(drawChart);
          });
        }
        buildCharts();
        refresh();
        """##
}
