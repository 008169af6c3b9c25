// The dashboard's page: Scripts/embed-dashboard writes this file from web/dashboard.html. Change that one.

/// The dashboard's page.
enum DashboardHTML {
    static let text = ##"""
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>cache-daemon</title>
        <link rel="icon" href="data:,">
        <link rel="stylesheet" href="dashboard.css">
        </head>
        <body>
        <header>
          <h1>cache-daemon</h1>
          <span id="state" class="badge">connecting</span>
          <span id="disk-state" class="badge"></span>
          <span id="about"></span>
          <nav>
            <span id="ranges">
              <button data-seconds="60">1 min</button>
              <button data-seconds="300" class="chosen">5 min</button>
              <button data-seconds="600">10 min</button>
            </span>
            <a href="metrics">metrics</a> <a href="stats.json">json</a>
          </nav>
        </header>
        <section id="tiles" aria-label="Key figures"></section>
        <section id="charts" aria-label="Charts"></section>
        <section id="tables">
          <div class="card">
            <h2>Latency by command and outcome, since the start</h2>
            <table id="latency">
              <thead>
                <tr><th>Command</th><th>Outcome</th><th>Count</th><th>p50</th><th>p99</th><th>p99.9</th></tr>
              </thead>
              <tbody></tbody>
            </table>
          </div>
          <div class="card">
            <h2>Hot keys, last minute or so</h2>
            <table id="hot">
              <thead><tr><th>Key</th><th>Requests/s</th></tr></thead>
              <tbody></tbody>
            </table>
          </div>
          <div class="card">
            <h2>Slow requests, newest first</h2>
            <table id="slow">
              <thead><tr><th>Time</th><th>Took</th><th>Where</th><th>Command</th><th>Key</th></tr></thead>
              <tbody></tbody>
            </table>
          </div>
        </section>
        <noscript>This page needs JavaScript; /metrics and /stats.json do not.</noscript>
        <script src="dashboard.js"></script>
        </body>
        </html>
        """##
}
