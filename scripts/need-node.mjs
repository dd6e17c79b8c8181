// One clear line instead of a syntax error when the scripts run on a Node that cannot strip types.
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 15)) {
  console.error(
    `Gatehouse needs Node >= 24.15 for its scripts, and this is ${process.versions.node}: ` +
      'run `npm start` or `npm test` at the root, which bring their own on Linux and macOS.',
  )
  process.exit(1)
}
