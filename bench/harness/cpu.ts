/** Calls per second of this process's CPU time. */
export function callsPerCpuSecond(call: () => unknown, ms: number): number {
  const deadline = performance.now() + ms
  const before = process.cpuUsage()
  let calls = 0
  while (performance.now() < deadline) {
    for (let n = 0; n < 20; n++) call()
    calls += 20
  }
  const { user, system } = process.cpuUsage(before)
  return (calls * 1e6) / (user + system)
}
