import { readMessage } from '../../services/forward-auth/src/mcp-proxy/message.ts'
import { toolCall } from '../../services/forward-auth/test/helpers/mcp-requests.ts'
import { callsPerCpuSecond } from '../harness/cpu.ts'

/** A call whose arguments have so many members, of so many characters in all. */
function bodyOf(members: number, length: number): Buffer {
  const text = 'x'.repeat(length / members - '"member00000":"",'.length)
  const args = Array.from({ length: members }, (_, n) => [
    `member${String(n).padStart(5, '0')}`,
    text,
  ])
  const { params, ...call } = toolCall('read_note')
  return Buffer.from(
    JSON.stringify({ ...call, params: { ...params, arguments: Object.fromEntries(args) } }),
  )
}

const [small, large] = [bodyOf(1_000, 20_000), bodyOf(9_900, 1_040_000)]
const sides = {
  'parsing 20 kB': () => JSON.parse(small.toString()),
  'reading 20 kB': () => readMessage(small),
  'parsing 1 MiB': () => JSON.parse(large.toString()),
  'reading 1 MiB': () => readMessage(large),
}
export type MessageSide = keyof typeof sides

process.on('message', ({ side, ms }: { side: MessageSide; ms: number }) => {
  process.send!(callsPerCpuSecond(sides[side], ms))
})
process.on('disconnect', () => process.exit())
process.send!('ready')
