# STAR's rule (arXiv 2512.09685, its published code) as a solution: how many of N workers an iteration waits for.
#   awk -f peers-star.awk -v batch=1024 -v noise=260 -v sync=bsp -v kept=FILE <snapshot
# A worker is a straggler when it takes more than 1.2 times as long as the fastest; without one all are waited for. The
# number is chosen anew when the stragglers have changed (FILE has those of the last choice). With
# n(B) = 1 + noise / B, by which updates of B samples are more than those of very large ones (how it knows noise
# while it trains is left out), t_1 <= .. <= t_N for even
# sizes and b = batch / N:
#   servers    m = 1 / sum(1 / t); tau_x = m + (t_N - m) (t_x - t_1) / (t_N - t_1); the first x with
#              m n(x b) < tau_(x+1) n((x + 1) b)
#   allreduce  the first x with n(x b) t_x < n((x + 1) b) t_(x+1)
# Its modes let gradients that come late be part of the next update. Here they are dropped and their rows trained
# again (action kind=backup-workers): another way to commit is no action.
{
	delete f
	for (i = 2; i <= NF; i++) { split($i, kv, "="); f[kv[1]] = kv[2] }
}
$1 == "node" && f["role"] == "worker" && f["state"] == "up" && f["short"] > 0 {
	for (k = ++n; k > 1 && t[k - 1] > f["short"]; k--) t[k] = t[k - 1]
	t[k] = f["short"]
	id[n] = f["id"]; time[n] = f["short"]
}
function updates(x) { return 1 + noise / (x * batch / n) }
function lasts(x) { return sync == "allreduce" ? t[x] : x <= 1 ? m : m + (t[n] - m) * (t[x] - t[1]) / (t[n] - t[1]) }
END {
	x = n
	for (k = 1; k <= n; k++) {
		m += 1 / t[k]
		if (time[k] > 1.2 * t[1]) stragglers = stragglers "," id[k]
	}
	if (n) m = 1 / m
	getline was <kept
	if (split(was, f, " ") == 2 && f[1] == stragglers) x = f[2]
	else if (stragglers != "")
		for (x = 1; x < n; x++)
			if ((sync == "allreduce" ? t[x] : m) * updates(x) < lasts(x + 1) * updates(x + 1)) break
	print stragglers, x >kept
	print "action kind=backup-workers count=" n - x
}
