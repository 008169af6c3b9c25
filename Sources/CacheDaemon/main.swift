// cache-daemon: reads the options, builds the server, runs it.

Program.run()
