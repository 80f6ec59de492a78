# speed-predict-bent: a made trace as of speed-predict-trace.awk, of another kind.
#   awk -v seed=1 -v workers=4 -v n=3000 -f speed-predict-bent.awk
# The speed is a power of the CPU that is free (each worker's own), a part of that beyond a threshold
# of the memory, with 3 % noise; now and then it is half for one iteration, which no load shows.
function u() { state = (state * 16807) % 2147483647; return state / 2147483647 }
function gauss(  i, sum) { sum = -6; for (i = 0; i < 12; i++) sum += u(); return sum }
function clip(x, low, high) { return x < low ? low : x > high ? high : x }
BEGIN {
	state = seed * 104729 + 777
	for (i = 0; i < 20; i++) u()
	for (w = 0; w < workers; w++) {
		base[w] = 60 + 240 * u(); power[w] = 0.7 + 1.6 * u()
		threshold[w] = 0.65 + 0.2 * u(); drop[w] = 0.5 + 0.25 * u()
	}
	for (k = 0; k < n; k++) for (w = 0; w < workers; w++) {
		if (u() < 1 / 80) {
			t = ++tasks[w]
			cpu[w, t] = 0.1 + 0.4 * u(); mem[w, t] = 0.05 + 0.3 * u()
			ends[w, t] = k - 100 * log(u())
		}
		c = 0.08; m = 0.25
		for (t = 1; t <= tasks[w]; t++) if (k < ends[w, t]) { c += cpu[w, t]; m += mem[w, t] }
		drift[w] += -0.01 * drift[w] + 0.012 * gauss()
		sway[w] += -0.01 * sway[w] + 0.012 * gauss()
		c = clip(c + drift[w], 0, 0.95); m = clip(m + sway[w], 0, 1)
		clean = base[w] * exp(power[w] * log(1 - 0.9 * c)) * (m > threshold[w] ? drop[w] : 1)
		v = clean * (1 + 0.03 * gauss()) * (u() < 0.014 ? 0.5 : 1)
		printf "obs id=w%d k=%d cpu=%.3f mem=%.3f speed=%.4f clean=%.4f\n", w, k,
			clip(c + 0.01 * gauss(), 0, 1), clip(m + 0.01 * gauss(), 0, 1), v, clean
	}
}
