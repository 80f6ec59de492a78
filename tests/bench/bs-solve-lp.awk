#!/usr/bin/awk -f
# bs-solve-lp.awk: AntDT Eq. 4 as a linear problem for glpsol --lp, from the records of `bs-solve -m accum`.
#   bs-solve-lp.awk -v batch=B [-v limit=T] < workers
# The product steps*size is taken apart: a binary y a number of steps, a size x that is 0 without
# it. Minimises the time; with a limit for the time the steps instead.
{
	split("", v)
	v["fixed"] = 0; v["min"] = v["cmin"] = v["cmax"] = v["count"] = 1; v["max"] = batch
	for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }
	for (c = v["cmin"]; c <= v["cmax"]; c++) {
		k = NR "_" c
		one[NR] = one[NR] " + y" k
		low[++m] = "x" k " - " v["min"] " y" k " >= 0"
		high[m] = "x" k " - " v["max"] " y" k " <= 0"
		time[m] = sprintf("z - %.17g y%s - %.17g x%s >= 0", c * v["fixed"], k, c / v["speed"], k)
		part[m] = " + " v["count"] * c " x" k
		step[m] = " + " v["count"] * c " y" k
		name[m] = k
	}
}
END {
	print "Minimize\n obj:"
	if (limit == "") print " z"
	else for (j = 1; j <= m; j++) print step[j]
	print "Subject To"
	for (i = 1; i <= NR; i++) print " one" i ":" one[i] " = 1"
	for (j = 1; j <= m; j++) {
		print " low" j ": " low[j]
		print " high" j ": " high[j]
		print " time" j ": " time[j]
	}
	print " sum:"
	for (j = 1; j <= m; j++) print part[j]
	print " = " batch
	print "Bounds"
	if (limit != "") print " z <= " limit
	print "General"
	for (j = 1; j <= m; j++) print " x" name[j]
	print "Binary"
	for (j = 1; j <= m; j++) print " y" name[j]
	print "End"
}
