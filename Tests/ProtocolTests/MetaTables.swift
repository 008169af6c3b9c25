// Meta commands, good and bad.

let metaRows: [Row] = []
