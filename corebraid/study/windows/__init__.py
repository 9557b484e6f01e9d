"""Parts of a trace: where an event stands (`moments`), and rows around it, or from one to another
(`trace_windows`)."""
