# metrics.awk: whether a page is Prometheus's text exposition format 0.0.4, strictly: every line, every
# family once and together, every sample once, its type and help before it. Says the line that is not,
# and ends with 1.
function wrong(why) {
	print FILENAME ":" NR ": " why ": " $0
	bad = 1
}
function name_of(line) {
	return match(line, /^[a-zA-Z_:][a-zA-Z0-9_:]*/) ? substr(line, 1, RLENGTH) : ""
}
/^# HELP / {
	name = $3
	if (name in helped)
		wrong("the help of a family for the second time")
	if (name != name_of(name) || NF < 4)
		wrong("no help")
	helped[name] = 1
	next
}
/^# TYPE / {
	if (NF != 4 || $3 != name || ($4 != "gauge" && $4 != "counter"))
		wrong("no type of the family whose help stands before")
	if ($3 in type)
		wrong("the type of a family for the second time")
	if ($4 == "counter" && $3 !~ /_total$/)
		wrong("a counter that does not end in _total")
	type[$3] = $4
	now = $3
	next
}
/^#/ || /^$/ {
	wrong("a line of no use")
	next
}
{
	line = $0
	name = name_of(line)
	if (name == "" || name != now)
		wrong("a sample that does not stand behind its type")
	rest = substr(line, length(name) + 1)
	split("", labels)
	series = name
	if (substr(rest, 1, 1) == "{") {
		rest = substr(rest, 2)
		while (match(rest, /^[a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\["\\n])*"/)) {
			label = substr(rest, 1, RLENGTH)
			rest = substr(rest, RLENGTH + 1)
			key = label
			sub(/=.*/, "", key)
			if (key in labels)
				wrong("a label for the second time")
			if (key == "job" || key == "instance")
				wrong("a label that is Prometheus's own")
			labels[key] = 1
			series = series " " label
			if (substr(rest, 1, 1) != ",")
				break
			rest = substr(rest, 2)
		}
		if (substr(rest, 1, 1) != "}")
			wrong("labels that do not end")
		rest = substr(rest, 2)
	}
	if (rest !~ /^ -?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?$/)
		wrong("no value")
	if (series in seen)
		wrong("a sample for the second time")
	if (type[name] == "counter" && rest ~ /^ -/)
		wrong("a counter below nothing")
	seen[series] = 1
}
END {
	if (NR == 0) {
		print "an empty page"
		bad = 1
	}
	exit bad
}
