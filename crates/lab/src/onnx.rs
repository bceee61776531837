//! Networks as ONNX files: the few messages of its protobuf schema (<https://onnx.ai/onnx/repo-docs/IR.html>) that perceptrons and a
//! cell need, written by hand. `tests/python/package` has them checked and run by ONNX's own packages.

use sskp_blocks::nets::Mlp;
use sskp_blocks::nets::gaussian::{LOG_STD_MAX, LOG_STD_MIN};
use sskp_blocks::nets::lstm::Lstm;
use sskp_methods::portable::{Body, Network};

/// Version of the operators used: that of ONNX 1.12, which every runtime since 2022 knows.
const OPERATORS: u64 = 17;
/// Version of the file's form, of the same release.
const FORM: u64 = 8;
/// Codes of the schema.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// A message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }
    fn number(mut self, field: u64, n: u64) -> Self {
        self.varint(field << 3);
        self.varint(n);
        self
    }
    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }
    fn message(self, field: u64, message: Message) -> Self {
        self.bytes(field, &message.0)
    }
}

/// A graph being built; every value has a name.
#[derive(Default)]
struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
    count: usize,
}

/// Rows of `length` numbers, as many as one likes.
fn value(name: &str, length: usize) -> Message {
    let rows = Message::default().text(2, "rows");
    let columns = Message::default().number(1, length as u64);
    let shape = Message::default().message(1, rows).message(1, columns);
    let tensor = Message::default().number(1, FLOAT).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

impl Graph {
    fn input(&mut self, name: &str, length: usize) -> String {
        self.inputs.push(value(name, length));
        name.into()
    }

    fn constant(&mut self, kind: u64, shape: &[usize], bytes: Vec<u8>) -> String {
        let name = format!("constant_{}", self.constants.len());
        let tensor = shape.iter().fold(Message::default(), |m, n| m.number(1, *n as u64));
        self.constants.push(tensor.number(2, kind).text(8, &name).bytes(9, &bytes));
        name
    }
    fn floats(&mut self, shape: &[usize], values: &[f32]) -> String {
        self.constant(FLOAT, shape, values.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// A node with an integer attribute, where it has one; gives its outputs.
    fn node(&mut self, kind: &str, inputs: &[&str], attribute: Option<(&str, u64)>, outputs: usize) -> Vec<String> {
        let names: Vec<String> = (0..outputs).map(|i| format!("value_{}", self.count + i)).collect();
        self.count += outputs;
        let mut node = inputs.iter().fold(Message::default(), |m, name| m.text(1, name));
        node = names.iter().fold(node, |m, name| m.text(2, name));
        node = node.text(4, kind);
        if let Some((name, number)) = attribute {
            node = node.message(5, Message::default().text(1, name).number(3, number).number(20, 2));
        }
        self.nodes.push(node);
        names
    }
    fn one(&mut self, kind: &str, inputs: &[&str]) -> String {
        self.node(kind, inputs, None, 1).remove(0)
    }

    fn join(&mut self, values: &[String]) -> String {
        match values {
            [one] => one.clone(),
            all => {
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                self.node("Concat", &all, Some(("axis", 1)), 1).remove(0)
            }
        }
    }
    fn split(&mut self, from: &str, lengths: &[usize]) -> Vec<String> {
        let bytes = lengths.iter().flat_map(|n| (*n as i64).to_le_bytes()).collect();
        let lengths_there = self.constant(INT64, &[lengths.len()], bytes);
        self.node("Split", &[from, &lengths_there], Some(("axis", 1)), lengths.len())
    }
    fn clip(&mut self, from: &str, low: f32, high: f32) -> String {
        let (low, high) = (self.floats(&[], &[low]), self.floats(&[], &[high]));
        self.one("Clip", &[from, &low, &high])
    }

    fn mlp(&mut self, net: &Mlp, input: &str) -> String {
        let mut x = input.to_string();
        let layers = net.layers().count();
        for (i, (weights, bias, [inputs, outputs])) in net.layers().enumerate() {
            let (weights, bias) = (self.floats(&[inputs, outputs], weights), self.floats(&[outputs], bias));
            x = self.one("Gemm", &[&x, &weights, &bias]);
            if i + 1 < layers {
                x = self.one("Relu", &[&x]);
            }
        }
        x
    }

    /// One step of a cell: h' and c'.
    fn cell(&mut self, cell: &Lstm, x: &str, h: &str, c: &str) -> [String; 2] {
        let (w_x, w_h, bias) = cell.parts();
        let hidden = cell.hidden();
        let w_x = self.floats(&[cell.inputs(), 4 * hidden], w_x);
        let w_h = self.floats(&[hidden, 4 * hidden], w_h);
        let bias = self.floats(&[4 * hidden], bias);
        let from_x = self.one("Gemm", &[x, &w_x, &bias]);
        let from_h = self.one("MatMul", &[h, &w_h]);
        let gates = self.one("Add", &[&from_x, &from_h]);
        let gates = self.split(&gates, &[hidden; 4]);
        let [i, f, o] = [0, 1, 3].map(|gate| self.one("Sigmoid", &[&gates[gate]]));
        let g = self.one("Tanh", &[&gates[2]]);
        let (kept, new) = (self.one("Mul", &[&f, c]), self.one("Mul", &[&i, &g]));
        let c = self.one("Add", &[&kept, &new]);
        let tanh = self.one("Tanh", &[&c]);
        [self.one("Mul", &[&o, &tanh]), c]
    }

    fn output(&mut self, name: &str, from: &str, length: usize) {
        let node = Message::default().text(1, from).text(2, name).text(4, "Identity");
        self.nodes.push(node);
        self.outputs.push(value(name, length));
    }

    fn model(self, name: &str) -> Vec<u8> {
        let list = |m: Message, field: u64, all: Vec<Message>| all.into_iter().fold(m, |m, one| m.message(field, one));
        let graph = list(Message::default(), 1, self.nodes).text(2, name);
        let graph = list(list(list(graph, 5, self.constants), 11, self.inputs), 12, self.outputs);
        let operators = Message::default().text(1, "").number(2, OPERATORS);
        let model = Message::default().number(1, FORM).text(2, "sskp").text(3, env!("CARGO_PKG_VERSION"));
        model.message(7, graph).message(8, operators).0
    }
}

/// A network as the bytes of an ONNX file, and the names of its outputs.
pub fn model(network: &Network) -> (Vec<u8>, Vec<&'static str>) {
    let mut graph = Graph::default();
    let inputs: Vec<String> = network.inputs.iter().map(|(name, length)| graph.input(name, *length)).collect();
    let x = graph.join(&inputs);
    let outputs = match &network.body {
        Body::Logit(net) => {
            let logit = graph.mlp(net, &x);
            graph.output("logit", &logit, net.outputs());
            vec!["logit"]
        }
        Body::Gaussian(net) => {
            let dim = net.outputs() / 2;
            let head = graph.mlp(net, &x);
            let parts = graph.split(&head, &[dim, dim]);
            let log_std = graph.clip(&parts[1], LOG_STD_MIN, LOG_STD_MAX);
            let std = graph.one("Exp", &[&log_std]);
            graph.output("mean", &parts[0], dim);
            graph.output("std", &std, dim);
            vec!["mean", "std"]
        }
        Body::Tanh(net, length) => {
            let length = *length;
            let head = graph.mlp(net, &x);
            let mean = match net.outputs() - length {
                0 => head,
                rest => graph.split(&head, &[length, rest]).remove(0),
            };
            let action = graph.one("Tanh", &[&mean]);
            graph.output("action", &action, length);
            vec!["action"]
        }
        Body::Clipped(net) => {
            let action = graph.mlp(net, &x);
            let action = graph.clip(&action, -1.0, 1.0);
            graph.output("action", &action, net.outputs());
            vec!["action"]
        }
        Body::Greater(a, b) => {
            let [a, b] = [a, b].map(|net| graph.mlp(net, &x));
            let greater = graph.one("Max", &[&a, &b]);
            let risk = graph.one("Sigmoid", &[&greater]);
            graph.output("risk", &risk, 1);
            vec!["risk"]
        }
        Body::Cell(cell, head) => {
            let (h, c) = (graph.input("h", cell.hidden()), graph.input("c", cell.hidden()));
            let [h, c] = graph.cell(cell, &x, &h, &c);
            let action = graph.mlp(head, &h);
            graph.output("next_action", &action, head.outputs());
            graph.output("next_h", &h, cell.hidden());
            graph.output("next_c", &c, cell.hidden());
            vec!["next_action", "next_h", "next_c"]
        }
    };
    (graph.model(network.name), outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_written_as_protobuf_has_them() {
        // The example of protobuf's documentation: field 1, 150.
        assert_eq!(Message::default().number(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").0, b"\x12\x07testing");
    }
}
