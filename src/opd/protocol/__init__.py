"""From a task to a report. Starts programs and reads files; imports no tensor library and no model."""
