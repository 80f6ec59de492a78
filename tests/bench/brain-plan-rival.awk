# brain-plan-rival: other ways to find resources, as a filter of res-plan(1)'s records.
#   way=optimus   Optimus: adds servers or workers, whichever is worth more, until nothing is or cores
#                 or memory are used up.  What is worth more it knows: it has the job's true
#                 numbers, where the real one learns them.
#   way=workers   auto-scaling: adds workers while each of the last ones brought more than 0.3 of what
#                 a worker did before; servers stay.
# Nodes have the sizes of Table 2: w cores a worker, s a server; add_w, add_s are added at once (6.3).
# io, io_more, wc, wu, wm, sm, hot: see brain-plan.c.
function least(a, b) { return a < b ? a : b }
function most(a, b) { return a > b ? a : b }
function rate(n, p,  i, share, update) {
	for (i = 0; i < p && i < 3; i++) {
		share = p == 1 ? 1 : (1 - 2 * hot) / p + (i < 2 ? hot : 0)
		update = most(update, wu * share / least(s / n, sm * share))
	}
	return n / (io + io_more * (n - 1) + wc / least(w, wm) + update)
}
function field(key,  i) {
	for (i = 2; i <= NF; i++)
		if (index($i, key "=") == 1)
			return substr($i, length(key) + 2)
}
function median(count,  i, j, v) {
	for (i = 2; i <= count; i++)
		for (j = i; j > 1 && sample[j] < sample[j - 1]; j--) {
			v = sample[j]; sample[j] = sample[j - 1]; sample[j - 1] = v
		}
	return sample[int((count + 1) / 2)]
}
# The pace that was measured with so many workers.
function measured(n,  i, count) {
	for (i = 1; i <= rounds; i++)
		if (of[i] == n)
			sample[++count] = pace[i]
	return median(count)
}
function say(n, p, reason) {
	print "plan role=worker count=" n " cores=" w
	print "plan role=server count=" p " cores=" s
	print "decision change=yes reason=" reason " method=" way " now=" pace[rounds] " expected= confidence="
}
$1 == "job" { pace[++rounds] = field("steps-per-second"); n = p = 0 }
$1 == "node" && field("role") == "worker" { of[rounds] = ++n }
$1 == "node" && field("role") == "server" { p++ }
END {
	more = least(least(add_w, int((cores - n * w - p * s) / w)), workers_max - n)
	more = most(more, 0)
	more_s = least(add_s, int((cores - n * w - p * s) / s))
	if (way == "optimus") {
		by_workers = more > 0 ? rate(n + more, p) - rate(n, p) : 0
		by_servers = more_s > 0 ? rate(n, p + more_s) - rate(n, p) : 0
		if (by_workers > 0 && by_workers >= by_servers)
			say(n + more, p, "workers")
		else if (by_servers > 0)
			say(n, p + more_s, "servers")
	} else if (more > 0) {
		for (i = rounds; i > 0 && of[i] == n; i--)
			;
		before = i > 0 ? of[i] : 0
		if (!before || (measured(n) - measured(before)) / (n - before) > 0.3 * measured(before) / before)
			say(n + more, p, "efficient")
	}
	print "decision change=no reason=balanced method=" way " now= expected= confidence="
	print ""
}
