/** The least that a Node program which listens can be. */
import { createServer } from 'node:http'

const server = createServer((_request, response) => response.end('hello'))
server.listen(0, '127.0.0.1', () => console.log('ready'))
