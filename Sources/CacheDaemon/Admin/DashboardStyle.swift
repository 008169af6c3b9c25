// The dashboard's style sheet: Scripts/embed-dashboard writes this file from web/dashboard.css. Change that one.

/// The dashboard's style sheet.
enum DashboardStyle {
    static let text = ##"""
        :root {
          --ground: #f5f6f8; --card: #ffffff; --ink: #1d2330; --faint: #667085; --line: #e3e6ec;
          --one: #2563eb; --two: #d97706; --three: #c0392b; --four: #0f9d76; --good: #0f8a5f; --bad: #c0392b;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #12151c; --card: #1b202b; --ink: #e6e9f0; --faint: #98a2b3; --line: #2b3240;
            --one: #6ea0ff; --two: #f0a94a; --three: #ff7b6b; --four: #3ecf9f; --good: #3ecf9f; --bad: #ff7b6b;
          }
        }
        * { box-sizing: border-box; }
        body {
          margin: 0; padding: 16px 20px 40px; background: var(--ground); color: var(--ink);
          font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums;
        }
        header { display: flex; flex-wrap: wrap; align-items: center; gap: 10px; margin-bottom: 14px; }
        h1 { font-size: 20px; margin: 0; }
        h2 { font-size: 13px; font-weight: 600; margin: 0 0 6px; color: var(--faint); }
        nav { margin-left: auto; display: flex; gap: 12px; align-items: center; }
        a { color: var(--one); }
        #about { color: var(--faint); }
        button {
          border: 1px solid var(--line); background: var(--card); color: var(--ink); padding: 3px 9px;
          border-radius: 6px; font: inherit; cursor: pointer;
        }
        button.chosen { border-color: var(--one); color: var(--one); }
        .badge { border-radius: 999px; padding: 2px 10px; font-size: 12px; background: var(--line); }
        .badge:empty { display: none; }
        .badge.good { background: var(--good); color: var(--card); }
        .badge.bad { background: var(--bad); color: var(--card); }
        section { display: grid; gap: 12px; margin-bottom: 12px; }
        #tiles { grid-template-columns: repeat(auto-fit, minmax(114px, 1fr)); }
        #charts { grid-template-columns: repeat(auto-fit, minmax(360px, 1fr)); }
        #tables { grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); align-items: start; }
        .card, .tile {
          background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px;
        }
        .tile b { display: block; font-size: 20px; font-weight: 600; }
        .tile span { color: var(--faint); font-size: 12px; }
        .card svg { display: block; width: 100%; height: auto; }
        .legend {
          display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; color: var(--faint); min-height: 18px;
        }
        .legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px; }
        .legend b { color: var(--ink); font-weight: 600; }
        .c1 { background: var(--one); } .c2 { background: var(--two); }
        .c3 { background: var(--three); } .c4 { background: var(--four); }
        svg .grid { stroke: var(--line); stroke-width: 1; }
        svg text { fill: var(--faint); font-size: 12px; }
        svg path { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
        svg .s1 { stroke: var(--one); } svg .s2 { stroke: var(--two); }
        svg .s3 { stroke: var(--three); } svg .s4 { stroke: var(--four); }
        svg .f1 { fill: var(--one); } svg .f2 { fill: var(--two); }
        svg .area { stroke: none; opacity: 0.28; }
        svg .limit { stroke: var(--faint); stroke-dasharray: 4 4; }
        table { width: 100%; border-collapse: collapse; }
        th { text-align: left; font-weight: 500; color: var(--faint); font-size: 12px; }
        td, th { padding: 3px 8px 3px 0; border-bottom: 1px solid var(--line); }
        td { overflow-wrap: anywhere; }
        td.number, th.number { text-align: right; }
        """##
}
