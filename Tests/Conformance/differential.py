def run(context): pass
